// The policy webhook of the component policy-admission: what it is asked about, and that policy-engine and manifests mean the same names.
import { describe, expect, it } from "@jest/globals";
import { POLICY_WEBHOOK, POLICY_WEBHOOK_SECRETS } from "../../src/contracts/names.ts";
import { readConfig } from "../../src/policy-engine/config.ts";
import { hasKubectl, kustomize, kustomizeWith, type Manifest, manifestsOf, podSpecOf } from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const OWN_NAMESPACE = "storage-team";
const PROCESS = "policy-engine";

interface Webhook {
  readonly name: string;
  readonly clientConfig: { readonly caBundle?: string; readonly service: object };
  readonly [field: string]: unknown;
}

describeWithKubectl("the policy webhook of the component policy-admission", () => {
  const manifests = hasKubectl()
    ? manifestsOf(kustomizeWith("overlays/minimal", { namespace: OWN_NAMESPACE }, ["components/policy-admission"]))
    : [];
  const named = (kind: string, name: string): Manifest => {
    const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
    if (found === undefined) throw new Error(`no ${kind} ${name}`);
    return found;
  };
  const webhooks = (): Webhook[] =>
    (named("ValidatingWebhookConfiguration", POLICY_WEBHOOK.configuration) as Manifest & { webhooks: Webhook[] })
      .webhooks;
  const engine = () => podSpecOf(manifests, PROCESS).containers.find(({ name }) => name === PROCESS);

  it("is turned on by nothing else", () => {
    const base = manifestsOf(kustomize("overlays/minimal"));
    expect(JSON.stringify(base)).not.toMatch(/policy-webhook|ValidatingWebhook/);
  });

  it("is served where the Service and the API server look for it, in whatever namespace it is", () => {
    expect(webhooks()).toHaveLength(1);
    const { service, path } = POLICY_WEBHOOK;
    expect(webhooks()[0]).toMatchObject({
      name: POLICY_WEBHOOK.webhook,
      clientConfig: { service: { name: service, namespace: OWN_NAMESPACE, path, port: 443 } },
    });
    expect(named("Service", service)).toMatchObject({
      metadata: { namespace: OWN_NAMESPACE },
      spec: { ports: [{ port: 443, targetPort: "policy-webhook" }] },
    });
    const config = readConfig(engine()?.args?.slice(1) ?? [], { POD_NAMESPACE: OWN_NAMESPACE });
    const port = engine()?.ports?.find(({ name }) => name === "policy-webhook");
    expect(config.policyWebhookPort).toBe(port?.containerPort);
  });

  it("has no CA, which is the ca-publisher's to write", () => {
    expect(webhooks()[0]?.clientConfig.caBundle).toBeUndefined();
  });

  it("is asked about policies alone, not about their deletion, and keeps none from being stored while it is away", () => {
    expect(webhooks()[0]).toMatchObject({
      failurePolicy: "Ignore",
      timeoutSeconds: 3,
      sideEffects: "None",
      rules: [
        {
          apiGroups: ["tidemark.dev"],
          resources: ["volumepolicies", "clustervolumepolicies"],
          operations: ["CREATE", "UPDATE"],
        },
      ],
    });
  });

  it("has its Secrets, empty", () => {
    for (const name of Object.values(POLICY_WEBHOOK_SECRETS)) {
      const secret = named("Secret", name);
      expect("data" in secret || "stringData" in secret).toBe(false);
    }
  });
});
