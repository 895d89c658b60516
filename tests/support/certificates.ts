/** Certificates made when a test needs them: nothing secret lies in the repository, and nothing in it expires. */
import "reflect-metadata"; // @peculiar/x509 looks for it
import {
  BasicConstraintsExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import type { CertificatePair } from "../../src/frontend/tls/certificate.ts";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const DAY_MS = 86_400_000;

/** What a certificate says. */
export interface CertificateSpec {
  /** Common name. Default `test`. */
  readonly name?: string;
  /** Days from now. Defaults: -1 and 30. */
  readonly fromDays?: number;
  readonly untilDays?: number;
}

/** A certificate for loopback that signs itself, with its key. */
export async function selfSigned(spec: CertificateSpec = {}): Promise<CertificatePair> {
  const { name = "test", fromDays = -1, untilDays = 30 } = spec;
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as CryptoKeyPair;
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${name}`,
    notBefore: new Date(Date.now() + fromDays * DAY_MS),
    notAfter: new Date(Date.now() + untilDays * DAY_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new SubjectAlternativeNameExtension([
        { type: "ip", value: "127.0.0.1" },
        { type: "dns", value: "localhost" },
      ]),
    ],
  });
  const key = PemConverter.encode(await crypto.subtle.exportKey("pkcs8", keys.privateKey), "PRIVATE KEY");
  return { cert: `${certificate.toString("pem")}\n`, key: `${key}\n` };
}
