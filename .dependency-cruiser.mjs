// The import rules of docs/architecture: what may know what. `make check` enforces them.
const PROCESSES = "policy-engine|operator|agent|extender|ca-publisher|lvmd";
/** The policy-engine's core: what its index.ts offers as a library, and what that is made of. */
const POLICY_LIBRARY = "index\\.ts|(policies|facts|sizing|decide|cel|lint)/";
/** That core, the rooms called `decide`, where operator, storage and lvmd decide among other files, and the reducer of a volume's state. */
const DECIDING = [
  `^src/policy-engine/(${POLICY_LIBRARY})`,
  "^src/(operator|agent|extender)/decide/",
  "^src/(operator|agent|extender|lvmd)/.*(decide-|-decision\\.ts)",
  "^src/agent/volumes/volume-events\\.ts",
];

/** @type {import("dependency-cruiser").IConfiguration} */
export default {
  forbidden: [
    {
      name: "no-cycles",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "contracts-know-nobody",
      comment: "what processes agree on stands on nothing",
      severity: "error",
      from: { path: "^src/contracts/" },
      to: { path: "^(src|demo)/", pathNot: "^src/contracts/" },
    },
    {
      name: "platform-knows-contracts-only",
      severity: "error",
      from: { path: "^src/platform/" },
      to: { path: "^(src|demo)/", pathNot: "^src/(contracts|platform)/" },
    },
    {
      name: "processes-meet-on-the-wire",
      comment: "processes never import each other; only the policy-engine's index is a library",
      severity: "error",
      from: { path: `^src/(${PROCESSES})/` },
      to: {
        path: `^(demo|src/(${PROCESSES}|cli))/`,
        pathNot: ["^src/$1/", "^src/policy-engine/index\\.ts$"],
      },
    },
    {
      name: "deciding-is-pure",
      comment: "what decides reads no clock, no file, no network: no Node builtin",
      severity: "error",
      from: { path: DECIDING },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "deciding-does-not-know-its-process",
      severity: "error",
      from: { path: DECIDING },
      to: {
        path: ["^src/(platform|contracts/gen)/", `^src/policy-engine/(?!${POLICY_LIBRARY})`],
        dependencyTypesNot: ["type-only"],
      },
    },
    {
      name: "commands-only-through-their-port",
      comment: "every command is an effect, so that the kill matrix can end the process around it",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/platform/process/effects/command-port\\.ts" },
      to: { path: "^(node:)?child_process$" },
    },
    {
      name: "mounts-are-read-in-threads",
      comment:
        "what reads a mounted filesystem may hang in the kernel: only the program of a thread that can be left behind imports it",
      severity: "error",
      from: { path: "^(src|demo)/", pathNot: ["^src/agent/storage/in-threads/", "-worker\\.ts$"] },
      to: { path: "^src/agent/storage/in-threads/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "cel-package-behind-one-module",
      severity: "error",
      from: { path: "^(src|demo)/", pathNot: "^(src/policy-engine/cel|demo/control-plane)/" },
      to: { path: "@marcbachmann/cel-js" },
    },
    {
      name: "client-node-behind-kube",
      severity: "error",
      from: { path: "^(src|demo)/", pathNot: "^src/(platform/kube|contracts/kubernetes)/" },
      to: { path: "@kubernetes/client-node", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "embedded-control-plane-stands-alone",
      severity: "error",
      from: { path: "^demo/control-plane/" },
      to: { path: "^(src|demo)/", pathNot: "^(demo/control-plane|src/(platform/process|contracts/quantities))/" },
    },
    {
      name: "demo-is-in-no-process",
      comment: "the image has none of it",
      severity: "error",
      from: { path: "^src/" },
      to: { path: "^demo/" },
    },
    { name: "no-unresolvable", severity: "error", from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^src/contracts/gen/" },
  },
};
