// The files of a bundle that an image takes, read at once and from one build, even while another build replaces them.
import { closeSync, fstatSync, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const ATTEMPTS_LIMIT = 20;

export interface BundleFile {
  readonly name: string;
  readonly text: string;
}

/** Source maps stay out: nothing in the image reads them, and they are larger than the bundle. Throws where there is no bundle. */
export function readBundle(directory: string): BundleFile[] {
  for (let attempt = 1; attempt <= ATTEMPTS_LIMIT; attempt += 1) {
    const files = tryToRead(directory, attempt === ATTEMPTS_LIMIT);
    if (files !== undefined) return files;
  }
  throw new Error(`Pack again: ${directory} was built anew each of ${ATTEMPTS_LIMIT} times that it was read`);
}

/** Undefined: it was replaced in between. */
function tryToRead(directory: string, isLast: boolean): BundleFile[] | undefined {
  let open: number | undefined;
  try {
    // As long as it is open no other directory gets its inode.
    open = openSync(directory, "r");
    const files = readdirSync(directory)
      .filter((name) => name.endsWith(".mjs"))
      .map((name) => ({ name, text: readFileSync(join(directory, name), "utf8") }));
    // A build never writes into a directory that is there: while it is the same one, all of its files are of one build.
    return statSync(directory).ino === fstatSync(open).ino ? files : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || isLast) throw error;
    return undefined;
  } finally {
    if (open !== undefined) closeSync(open);
  }
}
