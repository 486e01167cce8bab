// One key and one certificate for everything: the API server serves with it, trusts it, and signs tokens of service accounts by it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runProgram } from "../cluster/run-program.ts";

export interface Credentials {
  readonly certFile: string;
  readonly keyFile: string;
  readonly publicKeyFile: string;
  /** PEM. */
  readonly cert: string;
  readonly key: string;
}

/** An administrator, as kubectl's is. */
const SUBJECT = "/O=system:masters/CN=tidemark-test";
const VALID_DAYS = "2";

export async function makeCredentials(directory: string): Promise<Credentials> {
  const certFile = join(directory, "tls.crt");
  const keyFile = join(directory, "tls.key");
  const publicKeyFile = join(directory, "tls.pub");
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", keyFile];
  const names = ["-subj", SUBJECT, "-addext", "subjectAltName=IP:127.0.0.1"];
  await runProgram("openssl", ["req", "-x509", ...key, ...names, "-days", VALID_DAYS, "-out", certFile]);
  await runProgram("openssl", ["pkey", "-in", keyFile, "-pubout", "-out", publicKeyFile]);
  return {
    ...{ certFile, keyFile, publicKeyFile },
    cert: readFileSync(certFile, "utf8"),
    key: readFileSync(keyFile, "utf8"),
  };
}
