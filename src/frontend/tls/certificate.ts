/** A certificate with its key: checked before a server gets it, as the TLS library takes anything and fails at handshakes. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { TokenplaneError } from "../../errors.ts";

/** What a server proves itself with. */
export interface CertificatePair {
  /** PEM: its own certificate first, then those between it and the authority. */
  readonly cert: string;
  /** PEM, without a passphrase. */
  readonly key: string;
}

/** What is worth saying of a pair that works. */
export interface CertificateFacts {
  /** Milliseconds since the epoch. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** Certificates in the file. */
  readonly chain: number;
  /** Of its own certificate, as `openssl x509 -fingerprint -sha256` shows it. */
  readonly fingerprint: string;
}

/** Certificates in one file; a chain has a handful. */
const MAX_CHAIN = 16;
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/**
 * Checks that a pair can serve. Throws `invalid_config`.
 *
 * @param names what to call certificate and key in a message: `--tls-cert "PATH"`
 */
export function checkCertificate(
  pair: CertificatePair,
  names: { readonly cert: string; readonly key: string },
): CertificateFacts {
  const blocks = pair.cert.match(BLOCK) ?? [];
  if (blocks.length === 0) throw refuse(names.cert, "it holds no certificate in PEM");
  if (blocks.length > MAX_CHAIN) {
    throw refuse(names.cert, `it holds ${blocks.length} certificates, allowed are ${MAX_CHAIN}`);
  }
  const [own] = blocks.map((block, index) => parseCertificate(block, index, names.cert));
  const key = parseKey(pair.key, names.key);
  if (!own!.checkPrivateKey(key)) throw refuse(names.key, `it does not belong to ${names.cert}`);
  return {
    notBefore: Date.parse(own!.validFrom),
    notAfter: Date.parse(own!.validTo),
    chain: blocks.length,
    fingerprint: own!.fingerprint256,
  };
}

/** What is wrong with a pair's time, or null. */
export function validityFault(facts: CertificateFacts, nowMs: number): string | null {
  if (nowMs > facts.notAfter) return `expired at ${new Date(facts.notAfter).toISOString()}`;
  if (nowMs < facts.notBefore) return `not valid before ${new Date(facts.notBefore).toISOString()}`;
  return null;
}

function parseCertificate(block: string, index: number, name: string): X509Certificate {
  try {
    return new X509Certificate(block);
  } catch (cause) {
    throw refuse(name, `its certificate ${index + 1} cannot be read`, cause);
  }
}

function parseKey(text: string, name: string): KeyObject {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED/.test(text)) {
    throw refuse(name, "it is encrypted, and a passphrase cannot be given");
  }
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw refuse(name, "it holds no private key in PEM", cause);
  }
}

function refuse(name: string, why: string, cause?: unknown): TokenplaneError {
  return new TokenplaneError("invalid_config", `Cannot use ${name}: ${why}`, {
    scope: "process",
    ...(cause === undefined ? {} : { cause }),
  });
}
