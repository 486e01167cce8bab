// The certificate that a TLS server shows, replaced while it listens: new connections get the new one, established ones go on.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createSecureContext, type SecureContextOptions, type Server } from "node:tls";
import { ChannelCredentials } from "@grpc/grpc-js";
import type { Secret } from "../../../contracts/kubernetes/resources.ts";
import type { Logger } from "../log.ts";
import { hasPair, PAIR_KEYS, type StoredPair, storedPair } from "./key-pair.ts";

/** Throws, and the server goes on with what it has, when the pair cannot be used. */
export function showPair(
  server: Pick<Server, "setSecureContext">,
  { bundlePem, certificatePem, keyPem }: StoredPair,
  tlsOptions: SecureContextOptions,
): void {
  const options = { ca: bundlePem, cert: certificatePem, key: keyPem, ...tlsOptions };
  createSecureContext(options); // setSecureContext does not leave things as they were
  server.setSecureContext(options);
}

/** Shows what the Secret holds. False: it is empty, or, with a word in the log, holds no usable pair, and the one before goes on. */
export function showSecret(secret: Secret, replace: (pair: StoredPair) => void, log: Logger): boolean {
  // An empty one would be shown as no certificate at all.
  if (!hasPair(secret)) return false;
  const subject = { secret: secret.metadata.name };
  try {
    replace(storedPair(secret));
    log.info(subject, "new connections get the certificate of this Secret");
    return true;
  } catch {
    // Not the error: a parser may quote what it read.
    log.warn(subject, "the Secret holds no usable certificate; going on with the one before");
    return false;
  }
}

// Certificates in the files of a mounted Secret, which kubelet changes in place. A server reads its pair again now and then, and an
// unusable one leaves the former in use; a client reads its own for each connection.

interface PairDirectory {
  stop(): void;
}

/** Also how often a word is said at most of files that cannot be used. */
export const LOOK_INTERVAL_MS = 60_000;

/** Resolves after the first look. `show` throws when the pair cannot be used. */
export async function followPairDirectory(
  directory: string,
  show: (pair: StoredPair) => void,
  log: Logger,
): Promise<PairDirectory> {
  let shown = "";
  let isMissing = false;
  const look = async (): Promise<void> => {
    try {
      const pair = await readPair(directory);
      const text = `${pair.certificatePem}${pair.keyPem}`;
      if (text !== shown) show(pair);
      const isNews = text !== shown || isMissing;
      [shown, isMissing] = [text, false];
      if (isNews) log.info({ directory }, "new connections get the certificate of this directory");
    } catch (error) {
      // Its code alone, as of a file that is not there: a parser may quote what it read.
      const { code } = error as NodeJS.ErrnoException;
      log.warn({ directory, code }, "no usable certificate; keeping the previous one");
      isMissing = true;
    }
  };
  await look();
  const timer = setInterval(() => void look(), LOOK_INTERVAL_MS).unref();
  return { stop: () => clearInterval(timer) };
}

async function readPair(directory: string): Promise<StoredPair> {
  const read = (file: string): Promise<string> => readFile(join(directory, file), "utf8");
  const [certificatePem, keyPem] = await Promise.all([read(PAIR_KEYS.certificatePem), read(PAIR_KEYS.keyPem)]);
  // No caller shows a certificate here, so that no CA is looked for.
  return { certificatePem, keyPem, bundlePem: certificatePem };
}

/** Rejects when a file is not there, or key and certificate do not belong together (kubelet is just changing them). */
export async function readClientCredentials(directory: string): Promise<ChannelCredentials> {
  const [ca, cert, key] = await Promise.all(
    [PAIR_KEYS.bundlePem, PAIR_KEYS.certificatePem, PAIR_KEYS.keyPem].map((file) => readFile(join(directory, file))),
  );
  return ChannelCredentials.createFromSecureContext(createSecureContext({ ca, cert, key, minVersion: "TLSv1.3" }));
}
