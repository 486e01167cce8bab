// Which paths a CSI request may name: only those under kubelet's directory, symbolic links resolved, so that no request makes
// a privileged process mount over something else on the node.
import { existsSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, normalize, sep } from "node:path";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";

/** Of every path; more than the kernel takes. */
const PATH_LENGTH_LIMIT = 4096;

/**
 * The resolved path, or why a request may not name it. Its last part is not looked at: it may be the root of a filesystem
 * that does not answer. Its parent must exist.
 */
export function kubeletPath(kubeletDirectory: string, path: string): string | Refusal {
  return underKubelet(kubeletDirectory, path, dirname(path));
}

/** The same for a path that is to be left: its parents may be gone already, and then there is nothing at it. */
export function formerKubeletPath(kubeletDirectory: string, path: string): string | Refusal {
  let parent = dirname(path);
  while (!existsSync(parent) && parent !== dirname(parent)) parent = dirname(parent);
  return underKubelet(kubeletDirectory, path, parent);
}

/** `known` is the part above the path that exists; below it there are no links. */
function underKubelet(kubeletDirectory: string, path: string, known: string): string | Refusal {
  if (path === "") return invalidArgument("the path is missing");
  if (!isAbsolute(path) || path.length > PATH_LENGTH_LIMIT || path.includes("\0") || normalize(path) !== path)
    return invalidArgument(`path "${path.slice(0, PATH_LENGTH_LIMIT)}" is not an absolute, normalized path`);
  const [parent, root] = [resolve(known), resolve(kubeletDirectory)];
  if (parent instanceof Refusal) return parent;
  if (root instanceof Refusal) return root;
  const resolved = join(parent, path.slice(known.length));
  return resolved.startsWith(root + sep)
    ? resolved
    : invalidArgument(`path ${path} is not under kubelet's directory ${root}`);
}

function resolve(path: string): string | Refusal {
  try {
    return realpathSync(path);
  } catch (error) {
    return invalidArgument(`directory ${path} cannot be used: ${(error as Error).message}`);
  }
}
