// Which paths a CSI request may name: only those under kubelet's directory, symbolic links resolved, so that no request makes
// a privileged process mount over something else on the node.
import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, normalize, sep } from "node:path";

const PATH_LENGTH_LIMIT = 4096;

/** A path that a request may not name; the message says which and why. */
export class PathError extends Error {
  override name = "PathError";
}

/**
 * The resolved path. Its last part is not looked at: it may be the root of a filesystem that does not answer. Its parent
 * must exist. Throws PathError.
 */
export function kubeletPath(kubeletDirectory: string, path: string): string {
  if (!isAbsolute(path) || path.length > PATH_LENGTH_LIMIT || path.includes("\0") || normalize(path) !== path)
    throw new PathError(`path "${path}" is not an absolute, normalized path`);
  const resolved = join(resolve(dirname(path)), basename(path));
  const root = resolve(kubeletDirectory);
  if (!resolved.startsWith(root + sep)) throw new PathError(`path ${path} is not under kubelet's directory ${root}`);
  return resolved;
}

function resolve(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    throw new PathError(`directory ${path} cannot be used: ${(error as Error).message}`, { cause: error });
  }
}
