// A tenant who may make namespaces makes the members' one first, with all of its labels, before anybody installs Tidemark: the manifests, on
// a kube-apiserver with RBAC. The operator's own code asks in the operator's name, with the operator's rights.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import {
  CONFIG_MAPS,
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  RESOURCE_QUOTAS,
  STORAGE_CLASSES,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../src/contracts/names.ts";
import { createMemberHome, UnsafeHomeError } from "../../src/operator/apply/member-home.ts";
import { placeClaim } from "../../src/operator/apply/member-steps.ts";
import { HOME_LABELS } from "../../src/operator/decide/decide-home.ts";
import { memberClaim } from "../../src/operator/volumes/member-objects.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { isKubeError } from "../../src/platform/kube/kube-error.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { VOLUME_UID } from "../builders/volume.ts";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { startKubeApiServer } from "../real-api/kube-apiserver.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 240_000;
const FOUNDATION = "kustomize/foundation";
const OPERATOR = "system:serviceaccount:tidemark-system:operator";
const TENANT = "tenant";
const REFUSED = /is for members of volumes/;
const NAME = { name: MEMBER_NAMESPACE };
const log = createLogger("test", "silent");

const clients: ConnectedKubeClient[] = [];
let api: ApiUnderTest;
let [administrator, operator, tenant]: ConnectedKubeClient[] = [];

async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("kubectl", ["--server", api.url, ...args], { maxBuffer: 1 << 26 });
  return stdout;
}

/** In the name of that user; absent: an administrator. */
function clientOf(user?: string): ConnectedKubeClient {
  const headers: Record<string, string> = user === undefined ? {} : { "Impersonate-User": user };
  const connection = { server: api.url, credentials: async () => ({ headers, tls: {} }) };
  const client = createKubeClient({ connection, effects: directEffects, log });
  clients.push(client);
  return client;
}

const there = <T>(one: T | undefined): T => {
  if (one === undefined) throw new Error("not there yet");
  return one;
};
const asOperator = () => {
  const client = there(operator);
  return { client, home: createMemberHome(client, { guardsRequired: true }, log) };
};
const claimOf = (name: string, handle = `fs-${VOLUME_UID}`) =>
  memberClaim({ handle, volumeUID: VOLUME_UID, className: "any", selectedNode: undefined }, { name, size: "1Gi" });
const homeOf = (labels: Record<string, string> = HOME_LABELS): KubeObject => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { ...NAME, labels },
});
const makesHome = (client: ConnectedKubeClient | undefined, labels?: Record<string, string>) =>
  there(client).create("test/namespace", NAMESPACES, homeOf(labels));
const quota = {
  apiVersion: "v1",
  kind: "ResourceQuota",
  metadata: { name: "closed", namespace: MEMBER_NAMESPACE },
  spec: { hard: { "requests.storage": "0" } },
};
const claims = async () =>
  (await there(administrator).list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE })).items.map(
    ({ metadata }) => `${metadata.name} ${metadata.uid}`,
  );

const MEMBERS = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "tidemark-members", namespace: MEMBER_NAMESPACE },
};
/** As the operator keeps it. */
const saysMembers = (members: string) =>
  there(operator).apply(
    "test/members",
    CONFIG_MAPS,
    { ...MEMBERS, data: { members, operator: OPERATOR } },
    { fieldManager: "test" },
  );

/** A definition by itself, as those that a cluster with snapshots has. */
function definition(group: string, plural: string, kind: string): string {
  return JSON.stringify({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}`, annotations: { "api-approved.kubernetes.io": "unapproved, of a test" } },
    spec: {
      group,
      names: { plural, kind },
      scope: "Namespaced",
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
    },
  });
}

async function applyText(text: string): Promise<void> {
  const child = promisify(execFile)("kubectl", ["--server", api.url, "apply", "--server-side", "-f", "-"]);
  child.child.stdin?.end(text);
  await child;
}

/** An API server asks a new policy a moment after it was made, and a deleted one a moment longer. */
async function untilAsked(): Promise<void> {
  await waitFor(
    "the policies to be asked",
    async () => {
      const made = there(tenant).create("test/probe", CONFIG_MAPS, MEMBERS);
      const refused = await made.then(
        () => false,
        (error: unknown) => REFUSED.test(String(error)),
      );
      if (refused) return true;
      await there(administrator).delete("test/probe", CONFIG_MAPS, MEMBERS.metadata);
      return undefined;
    },
    { limitMs: LIMIT_MS / 2 },
  );
}

describeReal("a tenant who makes the members' namespace first", ["cluster"], () => {
  beforeAll(async () => {
    api = await startKubeApiServer(0, "RBAC");
    [administrator, operator, tenant] = [clientOf(), clientOf(OPERATOR), clientOf(TENANT)];
    await kubectl("apply", "--server-side", "-k", "kustomize/base");
    await kubectl("create", "clusterrole", "self-service", "--verb=create,update,patch", "--resource=namespaces");
    await kubectl("create", "clusterrolebinding", "self-service", "--clusterrole=self-service", `--user=${TENANT}`);
    await applyText(definition("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot"));
    await applyText(definition("gateway.networking.k8s.io", "referencegrants", "ReferenceGrant"));
    await there(administrator).create("test/class", STORAGE_CLASSES, {
      ...{ apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name: "any" } },
      provisioner: "csi.example.com",
    });
    await makesHome(tenant);
    // As self-service gives it to whoever has made a namespace.
    const owner = ["create", "rolebinding", "owner", "--clusterrole=cluster-admin", `--user=${TENANT}`];
    await kubectl("--namespace", MEMBER_NAMESPACE, ...owner);
  }, BUILD_LIMIT_MS);
  afterAll(async () => {
    for (const client of clients) await client.close();
    await api?.close();
  }, LIMIT_MS);

  it("gets no member: labels alone do not make it Tidemark's", async () => {
    expect(await asOperator().home.problem()).toMatch(/ValidatingAdmissionPolicy tidemark-member-guard does not exist/);
    await expect(placeClaim(asOperator(), claimOf("m0"))).rejects.toThrow(UnsafeHomeError);
    expect(await claims()).toEqual([]);
  });

  it(
    "has no use of its rights there once the foundation is applied, and then members are placed",
    async () => {
      await kubectl("apply", "--server-side", "-k", FOUNDATION);
      await untilAsked();
      expect(await asOperator().home.problem()).toBeUndefined();
      await placeClaim(asOperator(), claimOf("m0"));
      await saysMembers("some");
      const before = await claims();
      const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "reader", namespace: MEMBER_NAMESPACE } };
      const container = {
        name: "reader",
        image: "reader",
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
      };
      const spec = {
        containers: [container],
        securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      };
      const as = there(tenant);
      const own = { ...MEMBERS, data: { members: "none", operator: TENANT } };
      const lair = { metadata: { labels: { "pod-security.kubernetes.io/enforce": "privileged" } } };
      const snapshot = {
        apiVersion: "snapshot.storage.k8s.io/v1",
        kind: "VolumeSnapshot",
        metadata: { name: "copy", namespace: MEMBER_NAMESPACE },
      };
      const grant = { ...snapshot, apiVersion: "gateway.networking.k8s.io/v1", kind: "ReferenceGrant" };
      const kind = (group: string, plural: string, name: string) => ({
        group,
        version: "v1",
        plural,
        kind: name,
        namespaced: true,
      });
      for (const attack of [
        as.create("test/pod", PODS, { ...pod, spec }),
        as.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claimOf("m1")),
        as.apply("test/members", CONFIG_MAPS, own, { fieldManager: "thief", force: true }),
        as.create("test/quota", RESOURCE_QUOTAS, quota),
        as.create("test/copy", kind("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot"), snapshot),
        as.create("test/grant", kind("gateway.networking.k8s.io", "referencegrants", "ReferenceGrant"), grant),
        as.mergePatch("test/labels", NAMESPACES, NAME, lair),
      ])
        await expect(attack).rejects.toThrow(REFUSED);
      const member = { namespace: MEMBER_NAMESPACE, name: claimOf("m0").metadata.name };
      await expect(as.delete("test/member", PERSISTENT_VOLUME_CLAIMS, member)).rejects.toThrow(/holds data/);
      await expect(as.delete("test/home", NAMESPACES, NAME)).rejects.toThrow(/members of volumes hold data/);
      await as.mergePatch("test/labels", NAMESPACES, NAME, { metadata: { labels: { team: "red" } } });
      expect(await claims()).toEqual(before);
      expect(await asOperator().home.problem()).toBeUndefined();
    },
    LIMIT_MS,
  );

  it(
    "once a guard is gone no further member is placed, and none that is there goes",
    async () => {
      const before = await claims();
      const binding = "validatingadmissionpolicybinding/tidemark-member-scope";
      await kubectl("patch", binding, "--type=merge", '--patch={"metadata":{"finalizers":null}}');
      await kubectl("delete", binding);
      await expect(placeClaim(asOperator(), claimOf("m1"))).rejects.toThrow(
        /Binding tidemark-member-scope does not exist/,
      );
      expect((await placeClaim(asOperator(), claimOf("m0"))).metadata.uid).toBeDefined();
      expect(await claims()).toEqual(before);
      await kubectl("apply", "--server-side", "-k", FOUNDATION);
      await untilAsked();
      await placeClaim(asOperator(), claimOf("m1"));
    },
    LIMIT_MS,
  );

  it(
    "is safe from an operator whose role is of an earlier version: it says which right is missing, to whom, and what gives it",
    async () => {
      const reading = /admissionregistration/;
      const path = ["get", "clusterrole", "tidemark-operator", "--output=json"] as const;
      const { rules } = JSON.parse(await kubectl(...path)) as { rules: { apiGroups: string[] }[] };
      const earlier = rules.filter(({ apiGroups }) => !apiGroups.some((group) => reading.test(group)));
      expect(earlier).toHaveLength(rules.length - 1);
      await kubectl(
        "patch",
        "clusterrole",
        "tidemark-operator",
        "--type=merge",
        `--patch=${JSON.stringify({ rules: earlier })}`,
      );
      const placed = waitFor("the right to be gone", async () => {
        const problem = await asOperator().home.problem();
        return problem;
      });
      const right = `the operator may not get validatingadmissionpolicies.admissionregistration.k8s.io`;
      expect(await placed).toContain(right);
      await expect(placeClaim(asOperator(), claimOf("m3"))).rejects.toThrow(UnsafeHomeError);
      await expect(placeClaim(asOperator(), claimOf("m3"))).rejects.toThrow("kustomize/base/operator/roles.yaml");
      await kubectl("apply", "--server-side", "--force-conflicts", "-k", "kustomize/base");
      await waitFor("the right to be there", async () =>
        (await asOperator().home.problem()) === undefined ? true : undefined,
      );
    },
    LIMIT_MS,
  );

  it(
    "cannot make it again where it is missing; the operator does",
    async () => {
      await saysMembers("some");
      for (const name of ["m0", "m1"])
        await there(operator).delete("test/member", PERSISTENT_VOLUME_CLAIMS, {
          namespace: MEMBER_NAMESPACE,
          name: claimOf(name).metadata.name,
        });
      await saysMembers("none");
      await waitFor(
        "the namespace to be gone",
        async () => {
          await there(administrator)
            .delete("test/home", NAMESPACES, NAME)
            .catch((error: unknown) => {
              if (!isKubeError(error, "Forbidden") && !isKubeError(error, "Conflict")) throw error;
            });
          return (await there(administrator).get(NAMESPACES, NAME)) === undefined ? true : undefined;
        },
        { limitMs: LIMIT_MS / 2 },
      );
      await expect(makesHome(tenant)).rejects.toThrow(REFUSED);
      await expect(makesHome(tenant, {})).rejects.toThrow(REFUSED);
      await placeClaim(asOperator(), claimOf("m2"));
      expect((await there(administrator).get(NAMESPACES, NAME))?.metadata.labels).toMatchObject(HOME_LABELS);
    },
    LIMIT_MS,
  );
});
