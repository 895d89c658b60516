/** What a frontend proves itself with and whom it lets in, from the settings and from files that may change meanwhile. */
import { type Clock, systemClock } from "../clock.ts";
import type { FrontendSettings, StartSettings } from "../config/schema/mod.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import { entryFor, type KeyEntry, type KeyLimits } from "../frontend/keys/key_entry.ts";
import { parseKeyFile } from "../frontend/keys/key_file.ts";
import { KeyMemory } from "../frontend/keys/key_memory.ts";
import { KeyRing, type KeySet } from "../frontend/keys/key_ring.ts";
import {
  type CertificateFacts,
  type CertificatePair,
  checkCertificate,
  validityFault,
} from "../frontend/tls/certificate.ts";
import { proveHandshake } from "../frontend/tls/handshake_proof.ts";
import type { Logger } from "../observe/log.ts";
import type { Collectors } from "../observe/metrics.ts";
import { type FileContent, FileWatch, readContent } from "./file_watch.ts";

/** The settings that it comes from. */
export type CredentialSettings = Pick<
  FrontendSettings & StartSettings,
  | "apiKeys"
  | "apiKeyFile"
  | "keyRequestsPerMinute"
  | "keyConcurrentRequests"
  | "tlsCert"
  | "tlsKey"
  | "shards"
>;

/** Told of what has changed; calls come one after the other. */
export interface CredentialHost {
  onCertificate(pair: CertificatePair): void;
  onKeys(keys: KeySet): void;
}

/** See above. One per process. */
export class Credentials {
  /** What the keys have used, of all shards. Two columns for each: that of a dead isolate is cleared before it is used again. */
  readonly memory: KeyMemory;
  readonly #settings: CredentialSettings;
  readonly #limits: KeyLimits;
  readonly #log: Logger;
  readonly #ring: KeyRing;
  readonly #watches: FileWatch[] = [];
  #host: CredentialHost | null = null;
  #certificate: CertificatePair | null = null;
  #facts: CertificateFacts | null = null;
  #keys: KeySet = { isOpen: true, keys: [] };
  #isLoaded = false;

  private constructor(settings: CredentialSettings, log: Logger) {
    this.#settings = settings;
    this.#log = log;
    this.#limits = { rpm: settings.keyRequestsPerMinute, concurrent: settings.keyConcurrentRequests };
    this.memory = new KeyMemory(2 * settings.shards);
    this.#ring = new KeyRing(this.memory);
  }

  /** Reads the files and begins to watch them. Throws `invalid_config` when one cannot be used. */
  static async load(
    settings: CredentialSettings,
    log: Logger,
    clock: Clock = systemClock,
  ): Promise<Credentials> {
    const credentials = new Credentials(settings, log);
    const { apiKeyFile, tlsCert, tlsKey } = settings;
    if (tlsCert !== null && tlsKey !== null) {
      await credentials.#watch(
        [tlsCert, tlsKey],
        clock,
        (contents) => credentials.#takeCertificate(contents),
      );
    }
    if (apiKeyFile === null) credentials.#takeKeys([]);
    else {
      await credentials.#watch(
        [apiKeyFile],
        clock,
        (contents) => credentials.#takeKeys(credentials.#readKeys(contents)),
      );
    }
    credentials.#isLoaded = true;
    return credentials;
  }

  /** Null: without TLS. */
  get certificate(): CertificatePair | null {
    return this.#certificate;
  }

  get keys(): KeySet {
    return this.#keys;
  }

  /** Has changes told from now on. */
  tell(host: CredentialHost): void {
    this.#host = host;
    this.#warnOfTime();
  }

  /** Adds the series of the certificate, if there is one. */
  addMetrics(collectors: Collectors): void {
    if (this.#facts === null) return;
    collectors.add(
      "tokenplane_tls_certificate_expiry_timestamp_seconds",
      "When the certificate in use ends to be valid, in seconds since the epoch.",
      "gauge",
      () => this.#facts!.notAfter / 1_000,
    );
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
  }

  /** Takes what files hold, now and whenever they have changed; a fault then leaves what was, and is logged once. */
  async #watch(
    paths: readonly string[],
    clock: Clock,
    take: (contents: readonly FileContent[]) => Promise<void> | void,
  ): Promise<void> {
    const contents = await Promise.all(paths.map(readContent));
    try {
      await take(contents);
    } catch (caught) {
      this.close();
      throw caught;
    }
    this.#watches.push(
      new FileWatch(paths, contents, clock, async (changed) => {
        try {
          await take(changed);
        } catch (caught) {
          this.#log.error("reload_failed", {
            error: toTokenplaneError(caught),
            effect: "what was stays in use",
          });
        }
      }),
    );
  }

  async #takeCertificate([cert, key]: readonly FileContent[]): Promise<void> {
    const names = {
      cert: `--tls-cert "${this.#settings.tlsCert}"`,
      key: `--tls-key "${this.#settings.tlsKey}"`,
    };
    const pair = { cert: textOf(cert!, names.cert), key: textOf(key!, names.key) };
    const facts = checkCertificate(pair, names);
    await proveHandshake(pair, names.cert);
    this.#facts = facts;
    this.#certificate = pair;
    if (!this.#isLoaded) return;
    this.#warnOfTime();
    this.#log.info("tls_certificate_reloaded", {
      fingerprint: facts.fingerprint,
      chain: facts.chain,
      not_after: new Date(facts.notAfter).toISOString(),
    });
    this.#host?.onCertificate(pair);
  }

  /** It is served all the same: what a client makes of it is the client's affair, and the clock may be wrong. */
  #warnOfTime(): void {
    const fault = this.#facts === null ? null : validityFault(this.#facts, Date.now());
    if (fault !== null) this.#log.warn("tls_certificate_not_valid", { reason: fault });
  }

  #readKeys([content]: readonly FileContent[]): KeyEntry[] {
    const name = fileName(this.#settings);
    return parseKeyFile(textOf(content!, name), name, this.#limits);
  }

  #takeKeys(fromFile: readonly KeyEntry[]): void {
    // What the file says of a key comes first, with its name and limits.
    const entries = [...fromFile, ...this.#settings.apiKeys.map((key) => entryFor(key, this.#limits))];
    const hasFile = this.#settings.apiKeyFile !== null;
    if (hasFile && entries.length === 0 && !this.#isLoaded) {
      const message = `Cannot use ${fileName(this.#settings)}: it holds no key`;
      throw new TokenplaneError("invalid_config", message, { scope: "process" });
    }
    this.#keys = this.#ring.replace(entries, !hasFile);
    if (!this.#isLoaded) return;
    const { length: count } = this.#keys.keys;
    if (count > 0) this.#log.info("api_keys_reloaded", { count });
    else this.#log.warn("api_keys_reloaded", { count, effect: "nobody is let in" });
    this.#host?.onKeys(this.#keys);
  }
}

function fileName({ apiKeyFile }: CredentialSettings): string {
  return `--api-key-file "${apiKeyFile}"`;
}

function textOf(content: FileContent, name: string): string {
  if ("text" in content) return content.text;
  throw new TokenplaneError("invalid_config", `Cannot use ${name}: ${content.fault}`, { scope: "process" });
}
