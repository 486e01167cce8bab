// The pod webhook of the component placement: what it adds, where it looks, and that operator and manifests mean the same names.
import { describe, expect, it } from "@jest/globals";
import { MEMBER_NAMESPACE, POD_WEBHOOK, POD_WEBHOOK_SECRETS } from "../../src/contracts/names.ts";
import { readConfig } from "../../src/operator/config.ts";
import { hasKubectl, kustomize, kustomizeWith, type Manifest, manifestsOf, podSpecOf } from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const OWN_NAMESPACE = "storage-team";
const PROCESS = "operator";

interface Webhook {
  readonly name: string;
  readonly clientConfig: { readonly caBundle?: string; readonly service: object };
  readonly [field: string]: unknown;
}

describeWithKubectl("the pod webhook of the component placement", () => {
  const fields = { namespace: OWN_NAMESPACE };
  const manifests = hasKubectl()
    ? manifestsOf(kustomizeWith("overlays/minimal", fields, ["components/placement"]))
    : [];
  const named = (kind: string, name: string): Manifest => {
    const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
    if (found === undefined) throw new Error(`no ${kind} ${name}`);
    return found;
  };
  const webhooks = (): Webhook[] =>
    (named("MutatingWebhookConfiguration", POD_WEBHOOK.configuration) as Manifest & { webhooks: Webhook[] }).webhooks;
  const operator = () => podSpecOf(manifests, PROCESS).containers.find(({ name }) => name === PROCESS);

  it("is turned on by nothing else", () => {
    const base = manifestsOf(kustomize("overlays/minimal"));
    expect(JSON.stringify(base)).not.toMatch(/pod-webhook|MutatingWebhook/);
  });

  it("is served where the Service and the API server look for it, in whatever namespace it is", () => {
    expect(webhooks()).toHaveLength(1);
    expect(webhooks()[0]).toMatchObject({
      name: POD_WEBHOOK.webhook,
      clientConfig: {
        service: { name: POD_WEBHOOK.service, namespace: OWN_NAMESPACE, path: POD_WEBHOOK.path, port: 443 },
      },
    });
    expect(named("Service", POD_WEBHOOK.service)).toMatchObject({
      metadata: { namespace: OWN_NAMESPACE },
      spec: { ports: [{ port: 443, targetPort: "pod-webhook" }] },
    });
    const config = readConfig(operator()?.args?.slice(1) ?? []);
    const port = operator()?.ports?.find(({ name }) => name === "pod-webhook");
    expect(config.podWebhook?.port).toBe(port?.containerPort);
    const ports = podSpecOf(manifests, PROCESS).containers.flatMap(({ ports: some = [] }) => some);
    expect(new Set(ports.map(({ containerPort }) => containerPort)).size).toBe(ports.length);
  });

  it("has no CA, which is the ca-publisher's to write", () => {
    expect(webhooks()[0]?.clientConfig.caBundle).toBeUndefined();
  });

  it("never holds up a pod, and is not asked about those of the system", () => {
    expect(webhooks()[0]).toMatchObject({
      failurePolicy: "Ignore",
      timeoutSeconds: 3,
      sideEffects: "None",
      reinvocationPolicy: "IfNeeded",
      rules: [{ resources: ["pods"], operations: ["CREATE"] }],
    });
    const [term] = (webhooks()[0] as Webhook & { namespaceSelector: { matchExpressions: { values: string[] }[] } })
      .namespaceSelector.matchExpressions;
    expect(term).toMatchObject({ key: "kubernetes.io/metadata.name", operator: "NotIn" });
    for (const namespace of ["kube-system", "kube-public", "kube-node-lease", "tidemark-system", MEMBER_NAMESPACE])
      expect(term?.values).toContain(namespace);
  });

  it("may touch its own Secrets and its own configuration", () => {
    const rules = manifests.flatMap((one) => one.rules ?? []);
    const of = (resource: string) => rules.filter(({ resources }) => resources.includes(resource));
    expect(of("mutatingwebhookconfigurations").map(({ resourceNames }) => resourceNames)).toEqual([
      [POD_WEBHOOK.configuration],
      [POD_WEBHOOK.configuration],
    ]);
    const secrets = of("secrets").flatMap(({ resourceNames = [] }) => resourceNames);
    for (const name of Object.values(POD_WEBHOOK_SECRETS)) expect(secrets).toContain(name);
  });
});
