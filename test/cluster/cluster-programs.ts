// Where a cluster's programs come from: KUBEBUILDER_ASSETS and PATH when all of them are there, else the Go toolchain.
import { accessSync, constants } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { CLUSTER_PROGRAMS, type ClusterProgram } from "./cluster-state.ts";
import { type BuildProgress, builtTools, goProblem } from "./go-tools.ts";
import { CNI_PROGRAMS } from "./node-settings.ts";
import { programEnvironment } from "./run-program.ts";

/** Of Debian's packages containerd, runc, containernetworking-plugins, nftables and busybox-static. */
const PACKAGED_PROGRAMS = ["containerd", "runc", join(CNI_PROGRAMS, "ptp"), "nft", "busybox"];

type ProgramPaths = Readonly<Record<ClusterProgram, string>>;

/** Builds what is not there; rejects when it cannot. */
export async function findClusterPrograms(progress: BuildProgress): Promise<ProgramPaths> {
  const given = givenPrograms();
  if (given !== undefined) return given;
  const directories = [await builtTools("etcd", progress), await builtTools("kubernetes", progress)];
  const built = foundIn(directories);
  if (built === undefined)
    throw new Error(`not all of ${CLUSTER_PROGRAMS.join(", ")} are in ${directories.join(", ")}`);
  return built;
}

/** Why there cannot be a cluster here; undefined when there can. */
export function clusterProblem(): string | undefined {
  if (process.getuid?.() !== 0) return "this is not root";
  const directories = (programEnvironment().PATH ?? "").split(delimiter);
  const isThere = (program: string): boolean =>
    directories.some((directory) => isExecutable(resolve(directory, program)));
  const lacking = PACKAGED_PROGRAMS.filter((program) => !isThere(program));
  if (lacking.length > 0) return `${lacking.join(", ")} are not there: scripts/setup.sh --for cluster installs them`;
  return givenPrograms() === undefined ? goProblem() : undefined;
}

function givenPrograms(): ProgramPaths | undefined {
  return foundIn([process.env["KUBEBUILDER_ASSETS"] ?? "", ...(process.env["PATH"] ?? "").split(delimiter)]);
}

/** Undefined unless all are there: programs of two versions are not mixed. */
function foundIn(directories: readonly string[]): ProgramPaths | undefined {
  const found = CLUSTER_PROGRAMS.map((program) => {
    const paths = directories.filter((directory) => directory !== "").map((directory) => join(directory, program));
    return [program, paths.find(isExecutable)] as const;
  });
  return found.every(([, path]) => path !== undefined) ? (Object.fromEntries(found) as ProgramPaths) : undefined;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
