/** What nginx and HAProxy have in common: a configuration file, a source behind, a port in front. */

import { acceptsConnections, ManagedProcess, waitUntilReady } from "../../support/managed_process.ts";
import { NO_COMPILER, NO_OPENSSL } from "../../support/native.ts";
import { findTool, freePort, missingTool } from "../../support/tools.ts";
import type { Arm, ArmContext } from "./arm.ts";
import { startSource } from "./source.ts";
import { writeCertificate } from "./tls_files.ts";

/** What a configuration is made from. */
export interface ProxyPorts {
  readonly listen: number;
  readonly upstream: number;
}

/** One proxy. */
export interface Proxy {
  readonly name: string;
  /** The program, also the name of its Debian package. */
  readonly program: string;
  /** Whether its configuration serves by the files of `writeCertificate`. */
  readonly isTls?: boolean;
  configure(ports: ProxyPorts, context: ArmContext): string;
  argv(program: string, configPath: string, context: ArmContext): string[];
}

/** An arm that relays by this proxy. */
export function proxyArm(proxy: Proxy): Arm {
  return {
    name: proxy.name,
    async unavailable(context) {
      if (context.native === null) return NO_COMPILER;
      if (proxy.isTls === true && context.native.tlsClient === null) return NO_OPENSSL;
      return await findTool(proxy.program) === null ? missingTool(proxy.program, proxy.program) : null;
    },
    async start(context) {
      const program = await findTool(proxy.program);
      if (program === null) throw new Error(missingTool(proxy.program, proxy.program));
      const source = await startSource(context, context.otherCores);
      const listen = freePort();
      if (proxy.isTls === true) await writeCertificate(context.scratch);
      const configPath = `${context.scratch}/${proxy.name}.conf`;
      await Deno.writeTextFile(configPath, proxy.configure({ listen, upstream: source.port }, context));
      const process = await ManagedProcess.spawn(proxy.name, proxy.argv(program, configPath, context), {
        cores: context.relayCores,
      });
      try {
        await waitUntilReady([process], () => acceptsConnections(listen));
      } catch (error) {
        await process.stop();
        await source.process.stop();
        throw error;
      }
      return { port: listen, relay: [process], producers: [source.process], isTls: proxy.isTls === true };
    },
  };
}
