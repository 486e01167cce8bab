// What our admission of agents takes for granted about TokenReview: asked of a real API server where one is given. The embedded one
// has no authentication, so it must vouch for nobody.
import { Metadata, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { SAMPLES_AUDIENCE } from "../../src/contracts/names.ts";
import { createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { type Admit, createAgentAdmission } from "../../src/policy-engine/samples/sample-listener.ts";
import { type ContractTarget, startContractTarget } from "./contract-target.ts";

const NAMESPACE = "default";
const HOUR_SECONDS = 3600;

let target: ContractTarget;
let client: ReturnType<typeof createKubeClient>;
let admit: Admit;
const run = `token-review-${Date.now()}`;

beforeAll(async () => {
  target = await startContractTarget();
  client = createKubeClient({ connection: { server: target.baseUrl }, effects: directEffects });
  const agentUsername = `system:serviceaccount:${NAMESPACE}:${run}`;
  admit = createAgentAdmission({ client, agentUsername, nowMs: Date.now });
});
afterAll(async () => {
  await client.close();
  await target.close();
});

const show = (token: string) => {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  return admit(metadata);
};
const post = async (path: string, body: object): Promise<{ status?: { token?: string } }> => {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${target.baseUrl}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as { status?: { token?: string } };
};
const makeAccount = (name: string) =>
  post(`/api/v1/namespaces/${NAMESPACE}/serviceaccounts`, {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name },
  });
/** As kubelet asks for a projected token; without a pod, as anybody may who has the right. */
const tokenOf = async (account: string, audience: string, pod?: string): Promise<string> => {
  const boundObjectRef = pod === undefined ? undefined : { apiVersion: "v1", kind: "Pod", name: pod };
  const { status: answer } = await post(`/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${account}/token`, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    metadata: { name: account },
    spec: { audiences: [audience], expirationSeconds: HOUR_SECONDS, boundObjectRef },
  });
  return answer?.token ?? "";
};
const makePod = async (name: string, serviceAccountName: string, nodeName: string): Promise<void> => {
  await post("/api/v1/nodes", { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } });
  const containers = [{ name: "agent", image: "agent" }];
  const spec = { serviceAccountName, nodeName, containers, automountServiceAccountToken: false };
  await post(`/api/v1/namespaces/${NAMESPACE}/pods`, { apiVersion: "v1", kind: "Pod", metadata: { name }, spec });
};

describe("a TokenReview", () => {
  it("vouches for a pod's token with the pod's node, and for nothing else", async () => {
    if (target.embedded) {
      expect(await show("a.b.c")).toMatchObject({ admitted: false, code: status.UNAVAILABLE });
      return;
    }
    await makeAccount(run);
    await makeAccount(`${run}-tenant`);
    await makePod(run, run, `${run}-node`);
    await makePod(`${run}-tenant`, `${run}-tenant`, `${run}-node-2`);
    const refused = (code: status) => ({ admitted: false, code });
    expect(await show(await tokenOf(run, SAMPLES_AUDIENCE, run))).toEqual({ admitted: true, nodeName: `${run}-node` });
    expect(await show(await tokenOf(`${run}-tenant`, SAMPLES_AUDIENCE, `${run}-tenant`))).toMatchObject(
      refused(status.PERMISSION_DENIED),
    );
    expect(await show(await tokenOf(run, SAMPLES_AUDIENCE))).toMatchObject(refused(status.PERMISSION_DENIED));
    expect(await show(await tokenOf(run, "another-audience", run))).toMatchObject(refused(status.UNAUTHENTICATED));
    expect(await show("a.b.c")).toMatchObject(refused(status.UNAUTHENTICATED));
  });
});
