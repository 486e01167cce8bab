// Programs built by the Go toolchain from the modules of test/tools, once for each state of a module: into a cache outside of the
// repository, where a module's programs appear all at once.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterProcessLock } from "./process-lock.ts";
import { runProgram } from "./run-program.ts";

const MODULES_DIRECTORY = fileURLToPath(new URL("../tools/", import.meta.url));
const GO_VERSION_MIN = [1, 26] as const;
const BUILD_LIMIT_MS = 3_600_000;
const HASH_LENGTH = 12;

interface ToolModule {
  /** Package by program. */
  readonly programs: Readonly<Record<string, string>>;
  /** kubelet and kubectl tell the version that the linker gives them: that of this required module. */
  readonly versionOf?: string;
}

const MODULES = {
  kubernetes: {
    versionOf: "k8s.io/kubernetes",
    programs: {
      "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
      "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
      "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
      kubelet: "k8s.io/kubernetes/cmd/kubelet",
      kubectl: "k8s.io/kubernetes/cmd/kubectl",
      "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
      "csi-attacher": "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
      "csi-provisioner": "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
      "csi-resizer": "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
      "csi-snapshotter": "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
      "snapshot-controller": "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
    },
  },
  etcd: { programs: { etcd: "go.etcd.io/etcd/server/v3", etcdutl: "go.etcd.io/etcd/etcdutl/v3" } },
  "csi-sanity": { programs: { "csi-sanity": "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity" } },
} as const satisfies Record<string, ToolModule>;

export type ToolModuleName = keyof typeof MODULES;

/** Hears what is being built; a cold build of all takes a quarter of an hour on two cores. */
export type BuildProgress = (line: string) => void;

/** The directory of the module's programs, built if one is missing. Interrupted, it goes on where Go's own cache is. */
export async function builtTools(name: ToolModuleName, progress: BuildProgress): Promise<string> {
  const module: ToolModule = MODULES[name];
  const directory = join(cacheDirectory(), `${name}-${stateOf(name)}`);
  const isBuilt = (): boolean => Object.keys(module.programs).every((program) => existsSync(join(directory, program)));
  if (isBuilt()) return directory;
  const problem = goProblem();
  if (problem !== undefined) throw new Error(problem);
  await afterProcessLock(`${directory}.lock`, async () => {
    if (!isBuilt()) await buildAll(name, directory, progress);
  });
  return directory;
}

/** The sources of a module that this one requires, as Go has them. */
export async function moduleDirectory(name: ToolModuleName, required: string): Promise<string> {
  const directory = join(MODULES_DIRECTORY, name);
  await runProgram("go", ["mod", "download", required], { directory, timeLimitMs: BUILD_LIMIT_MS });
  return (await runProgram("go", ["list", "-m", "-f", "{{.Dir}}", required], { directory })).trim();
}

async function buildAll(name: ToolModuleName, directory: string, progress: BuildProgress): Promise<void> {
  const programs = Object.keys(MODULES[name].programs);
  const building = mkdtempSync(join(cacheDirectory(), ".building-"));
  try {
    for (const [index, program] of programs.entries()) {
      progress(`building ${program} (${index + 1} of ${programs.length} of ${name}), once for all clusters ...`);
      const startMs = performance.now();
      await build(name, program, join(building, program));
      progress(`built ${program} in ${((performance.now() - startMs) / 1000).toFixed(0)} s`);
    }
    rmSync(directory, { recursive: true, force: true });
    renameSync(building, directory);
  } finally {
    rmSync(building, { recursive: true, force: true });
  }
}

async function build(name: ToolModuleName, program: string, output: string): Promise<void> {
  const { programs, versionOf }: ToolModule = MODULES[name];
  const linkerFlags = ["-s", "-w", ...(versionOf === undefined ? [] : versionFlags(name, versionOf))].join(" ");
  const environment = ["CGO_ENABLED=0", "GOFLAGS=-mod=readonly"];
  const args = ["go", "build", "-trimpath", "-ldflags", linkerFlags, "-o", output, programs[program] ?? ""];
  await runProgram("nice", ["env", ...environment, ...args], {
    directory: join(MODULES_DIRECTORY, name),
    timeLimitMs: BUILD_LIMIT_MS,
  });
}

function versionFlags(name: ToolModuleName, required: string): string[] {
  const goMod = readFileSync(join(MODULES_DIRECTORY, name, "go.mod"), "utf8");
  const [, version, major, minor] = new RegExp(`${required} (v(\\d+)\\.(\\d+)\\S*)`).exec(goMod) ?? [];
  const values = { gitVersion: version, gitMajor: major, gitMinor: minor };
  return Object.entries(values).map(
    ([variable, value]) => `-X k8s.io/component-base/version.${variable}=${value ?? ""}`,
  );
}

function stateOf(name: ToolModuleName): string {
  const hash = createHash("sha256").update(goVersion());
  for (const file of ["go.mod", "go.sum"]) hash.update(readFileSync(join(MODULES_DIRECTORY, name, file)));
  return hash.digest("hex").slice(0, HASH_LENGTH);
}

/** What is needed, when there is no Go or an older one; undefined when all is well. */
export function goProblem(): string | undefined {
  const version = goVersion();
  const [, major = 0, minor = 0] = (/^go(\d+)\.(\d+)/.exec(version) ?? []).map(Number);
  const [majorMin, minorMin] = GO_VERSION_MIN;
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return undefined;
  return (
    `building the cluster's programs needs Go ${GO_VERSION_MIN.join(".")} or newer in PATH, and this machine has ${version}; ` +
    "or set KUBEBUILDER_ASSETS to a directory that has them"
  );
}

function goVersion(): string {
  const { status, stdout } = spawnSync("go", ["env", "GOVERSION"], { encoding: "utf8" });
  return status === 0 ? stdout.trim() : "none";
}

function cacheDirectory(): string {
  return join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "tidemark", "tools");
}
