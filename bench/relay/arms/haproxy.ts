/** HAProxy for the same job: one thread, upstream connections kept, no delay for interactive streams. */

import { proxyArm, type ProxyPorts } from "./proxy.ts";
import type { ArmContext } from "./arm.ts";

/** One thread. `http-no-delay` is its documented setting for streams that must leave as they come. */
export const haproxyArm = proxyArm({
  name: "haproxy",
  program: "haproxy",
  configure: haproxyConfig,
  argv: (program, config) => [program, "-db", "-f", config],
});

/** The configuration file. */
export function haproxyConfig(ports: ProxyPorts, context: ArmContext): string {
  return `global
  nbthread 1
  maxconn ${context.streams * 2 + 512}
defaults
  mode http
  option http-no-delay
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 300s
  timeout server 300s
frontend clients
  bind 127.0.0.1:${ports.listen} backlog 4096
  default_backend source
backend source
  server source 127.0.0.1:${ports.upstream} pool-max-conn ${context.streams + 64}
`;
}
