/** A certificate for an arm that serves by TLS, made for one repetition: the same kind of key for each. */

import { selfSigned } from "../../../tests/support/certificates.ts";

/** Names in the repetition's folder. */
export const CERT_FILE = "tls.crt";
export const KEY_FILE = "tls.key";

/** Writes certificate (ECDSA, P-256) and key; returns the certificate, for a client to trust. */
export async function writeCertificate(folder: string): Promise<string> {
  const { cert, key } = await selfSigned();
  await Deno.writeTextFile(`${folder}/${CERT_FILE}`, cert);
  await Deno.writeTextFile(`${folder}/${KEY_FILE}`, key);
  return cert;
}
