// A server's certificate in the files of a mounted Secret, as cert-manager and others write it. kubelet changes them in place, so they are read
// again now and then; what cannot be used leaves the one before.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "../log.ts";
import type { StoredPair } from "./decide-certificates.ts";
import { PAIR_KEYS } from "./pair-secret.ts";

export interface PairDirectory {
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
      log.warn({ directory, code }, "there is no usable certificate; going on with the one before");
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
