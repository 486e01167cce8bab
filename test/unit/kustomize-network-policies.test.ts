// The component network-policies against the ports of all manifests: each port is open to those who have to reach it, and to nobody else.
import { describe, expect, it } from "@jest/globals";
import { readConfig as readEngineConfig } from "../../src/policy-engine/config.ts";
import { hasKubectl, kustomizeWith, type Manifest, manifestsOf, podSpecOf } from "../harness/kustomize.ts";
import {
  allowedBy,
  isIsolated,
  type NetworkPolicy,
  networkPoliciesOf,
  type PodPlace,
  type Sender,
} from "../harness/network-policies.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const OWN_NAMESPACE = "storage-team";
const OTHERS = ["components/placement", "components/snapshots", "components/policy-admission"];

type Labels = Readonly<Record<string, string>>;

const inNamespace = (namespace: string, labels: Labels): PodPlace => ({
  namespace,
  namespaceLabels: { "kubernetes.io/metadata.name": namespace },
  labels,
});
const process = (component: string, namespace = OWN_NAMESPACE): PodPlace =>
  inNamespace(namespace, { "app.kubernetes.io/name": "tidemark", "app.kubernetes.io/component": component });

/** Everybody who might ask, by name. */
const SENDERS: Readonly<Record<string, Sender>> = {
  prometheus: inNamespace("monitoring", { app: "prometheus" }),
  agent: process("agent"),
  scheduler: process("scheduler"),
  operator: process("operator"),
  "policy-engine": process("policy-engine"),
  extender: process("extender"),
  "a pod that calls itself an agent": process("agent", "shop"),
  "a pod that calls itself a scheduler": process("scheduler", "shop"),
  "a tenant's pod": inNamespace("shop", {}),
  "the API server": "outside",
};
const METRICS = ["prometheus"];
/** Whom a port is for, by its name; the others are kubelet's alone. */
const MEANT_FOR: Readonly<Record<string, readonly string[]>> = {
  metrics: METRICS,
  "lvmd-metrics": METRICS,
  samples: ["agent"],
  extender: ["scheduler"],
  "pod-webhook": Object.keys(SENDERS),
  "policy-webhook": Object.keys(SENDERS),
};

interface ServedPort {
  readonly pod: PodPlace;
  readonly workload: string;
  readonly name: string;
  readonly port: number;
}

const labelsOf = ({ spec }: Manifest): Labels => spec?.template?.metadata.labels ?? {};

function servedPorts(manifests: readonly Manifest[]): ServedPort[] {
  return manifests
    .filter(({ spec }) => spec?.template !== undefined)
    .flatMap((workload) =>
      (workload.spec?.template?.spec.containers ?? []).flatMap(({ ports = [] }) =>
        ports.map(({ name, containerPort: port }) => ({
          pod: inNamespace(workload.metadata.namespace ?? "", labelsOf(workload)),
          workload: workload.metadata.name,
          name,
          port,
        })),
      ),
    );
}

describeWithKubectl("the component network-policies", () => {
  const build = (components: readonly string[]): Manifest[] =>
    hasKubectl() ? manifestsOf(kustomizeWith("overlays/lvm", { namespace: OWN_NAMESPACE }, components)) : [];
  const before = build(OTHERS);
  const manifests = build([...OTHERS, "components/network-policies"]);
  const policies: readonly NetworkPolicy[] = networkPoliciesOf(manifests);
  const ports = servedPorts(manifests);

  it("adds five policies to the namespace that the overlay names, and changes nothing else", () => {
    expect(manifests.filter(({ kind }) => kind !== "NetworkPolicy")).toEqual(before);
    expect(policies.map(({ metadata }) => `${metadata.namespace} ${metadata.name}`).sort()).toEqual(
      ["agent", "deny-ingress", "extender", "operator", "policy-engine"].map(
        (name) => `${OWN_NAMESPACE} tidemark-${name}`,
      ),
    );
  });

  it("closes every pod of ours, and no other pod of the namespace", () => {
    expect(new Set(ports.map(({ workload }) => workload)).size).toBe(5);
    for (const { pod } of ports) expect(isIsolated(policies, pod)).toBe(true);
    expect(isIsolated(policies, process("of a later version"))).toBe(true);
    expect(isIsolated(policies, inNamespace(OWN_NAMESPACE, { app: "foreign" }))).toBe(false);
  });

  it("opens each port that a process serves to those whom it is for, and to nobody else", () => {
    const opened = ports.map(({ pod, workload, name, port }) => ({
      port: `${workload} ${name} ${port}`,
      to: Object.keys(SENDERS).filter((sender) => allowedBy(policies, pod, port, SENDERS[sender] as Sender).length > 0),
    }));
    expect(opened).toEqual(
      ports.map(({ workload, name, port }) => ({ port: `${workload} ${name} ${port}`, to: MEANT_FOR[name] ?? [] })),
    );
    expect(opened.filter(({ to }) => to.length > 0)).toHaveLength(9);
  });

  it("has no rule for a port at which nothing listens", () => {
    const served = (selected: NetworkPolicy["spec"]["podSelector"]["matchLabels"]) =>
      ports.filter(({ pod }) => Object.entries(selected).every(([key, value]) => pod.labels[key] === value));
    for (const { spec } of policies)
      for (const { ports: open } of spec.ingress ?? [])
        for (const { port } of open)
          expect(served(spec.podSelector.matchLabels).map((one) => one.port)).toContain(port);
  });

  it("means the ports that the processes are given by their flags", () => {
    const engine = podSpecOf(manifests, "policy-engine").containers[0];
    const { samplesAddress, httpPort, policyWebhookPort } = readEngineConfig(engine?.args?.slice(1) ?? [], {
      POD_NAMESPACE: "a",
    });
    const ofEngine = ports.filter(({ workload }) => workload === "policy-engine");
    expect(ofEngine.map(({ port }) => port)).toEqual([httpPort, samplesAddress?.port, policyWebhookPort]);
  });

  it("leaves all egress as it is: no policy could name every cluster's API server", () => {
    for (const { spec } of policies) expect(spec.policyTypes).toEqual(["Ingress"]);
  });

  it("lets one patch name the namespace of another Prometheus, as the documentation does", () => {
    const patch = [
      {
        op: "replace",
        path: "/spec/ingress/0/from/0/namespaceSelector/matchLabels",
        value: { "kubernetes.io/metadata.name": "observability" },
      },
    ];
    const target = { kind: "NetworkPolicy", name: "tidemark-(policy-engine|operator|agent|extender)" };
    const fields = { namespace: OWN_NAMESPACE, patches: [{ target, patch: JSON.stringify(patch) }] };
    const components = [...OTHERS, "components/network-policies"];
    const patched = networkPoliciesOf(manifestsOf(kustomizeWith("overlays/lvm", fields, components)));
    const metrics = ports.filter(({ name }) => MEANT_FOR[name] === METRICS);
    expect(metrics).toHaveLength(5);
    for (const { pod, port } of metrics) {
      expect(allowedBy(patched, pod, port, inNamespace("observability", {}))).toHaveLength(1);
      expect(allowedBy(patched, pod, port, inNamespace("monitoring", {}))).toEqual([]);
    }
  });
});
