// The component metrics-authentication: each process that can asks who reads its metrics, and is probed over HTTPS. Its rights are in
// kustomize-roles.test.ts.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { readConfig as readAgentConfig } from "../../src/agent/config.ts";
import { readConfig as readExtenderConfig } from "../../src/extender/config.ts";
import { readConfig as readOperatorConfig } from "../../src/operator/config.ts";
import { readConfig as readEngineConfig } from "../../src/policy-engine/config.ts";
import { hasKubectl, kustomizeWith, type Manifest, manifestsOf, podSpecOf } from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const COMPONENT = "components/metrics-authentication";
const OTHERS = [
  "components/placement",
  "components/policy-admission",
  "components/snapshots",
  "components/network-policies",
];

const READERS = {
  "policy-engine": readEngineConfig,
  operator: readOperatorConfig,
  agent: readAgentConfig,
  extender: readExtenderConfig,
};
const NAMES = Object.keys(READERS) as (keyof typeof READERS)[];
const PROBES = ["startupProbe", "livenessProbe", "readinessProbe"];

const build = (components: readonly string[]): Manifest[] =>
  hasKubectl() ? manifestsOf(kustomizeWith("overlays/lvm", { namespace: "storage-team" }, components)) : [];

/** As the installation page has it for those who check the certificate. */
function buildChecked(): Manifest[] {
  const page = readFileSync("docs/reference/installation.md", "utf8");
  const [, after = ""] = page.split("```yaml\n# A certificate that Prometheus checks");
  const { patches } = parse(`#${after.slice(0, after.indexOf("```"))}`) as { patches: object[] };
  return manifestsOf(kustomizeWith("overlays/minimal", { patches }, ["components/placement", COMPONENT]));
}

describeWithKubectl("the component metrics-authentication", () => {
  const before = build(OTHERS);
  const manifests = build([...OTHERS, COMPONENT]);
  const checked = hasKubectl() ? buildChecked() : [];
  const processOf = (some: readonly Manifest[], name: string) => {
    const found = podSpecOf(some, name).containers.find((container) => container.name === name);
    if (found === undefined) throw new Error(`no container ${name}`);
    return found;
  };
  it.each(NAMES)("has the %s ask for a token, and is the only one that does", (name) => {
    const config = (some: readonly Manifest[]) => READERS[name](processOf(some, name).args?.slice(1) ?? [], {});
    expect(config(manifests).metricsAuthentication).toEqual({ audience: undefined, tlsDirectory: undefined });
    expect(config(before).metricsAuthentication).toBeUndefined();
  });

  it.each(NAMES)("has kubelet probe the %s over HTTPS", (name) => {
    for (const probe of PROBES)
      expect(processOf(manifests, name)[probe]).toMatchObject({ httpGet: { scheme: "HTTPS", port: "metrics" } });
  });

  it("adds one role, which is bound to no one, and takes nothing away", () => {
    const keyOf = ({ kind, metadata }: Manifest): string => `${kind} ${metadata.name}`;
    const known = new Set(before.map(keyOf));
    const added = manifests.filter((one) => !known.has(keyOf(one)));
    expect(added).toEqual([
      expect.objectContaining({
        kind: "ClusterRole",
        rules: [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }],
      }),
    ]);
    expect(added[0]?.metadata.name).toBe("tidemark-metrics-reader");
    expect(manifests).toHaveLength(before.length + 1);
    const changed = before.filter(
      (one) => JSON.stringify(one) !== JSON.stringify(manifests.find((two) => keyOf(two) === keyOf(one))),
    );
    expect(changed.map(({ kind }) => kind).sort()).toEqual([
      ...Array<string>(4).fill("ClusterRole"),
      "DaemonSet",
      ...Array<string>(3).fill("Deployment"),
    ]);
  });

  it("has the operator ask whatever other components put beside it, in whatever order they come", () => {
    for (const components of [["components/snapshots", "components/placement"], OTHERS])
      expect(processOf(build([...components, COMPONENT]), "operator").args).toEqual(
        expect.arrayContaining(["--pod-webhook", "--metrics-authentication"]),
      );
  });

  it.each(NAMES)(
    "lets an overlay as the installation page has it give the %s a certificate and an audience",
    (name) => {
      const { args = [], volumeMounts = [] } = processOf(checked, name);
      const { metricsAuthentication } = READERS[name](args.slice(1), {});
      expect(metricsAuthentication).toEqual({ audience: "tidemark-metrics", tlsDirectory: "/etc/tidemark/metrics" });
      const mount = volumeMounts.find(({ mountPath }) => mountPath === metricsAuthentication?.tlsDirectory);
      const volumes = podSpecOf(checked, name).volumes ?? [];
      expect(volumes.find((volume) => volume.name === mount?.name)).toMatchObject({
        secret: { secretName: "tidemark-metrics" },
      });
    },
  );

  it("does without the extender where that is not installed", () => {
    const minimal = build([COMPONENT]);
    expect(JSON.stringify(minimal)).not.toContain("extender");
    expect(processOf(minimal, "operator").args).toContain("--metrics-authentication");
  });
});
