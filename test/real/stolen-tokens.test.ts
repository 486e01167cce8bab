// What a thief can do who has the token of one of our processes: the manifests as they are installed, on a kube-apiserver with RBAC. Each
// process' own writes go through, in its own name; each attack is refused, and nothing has changed.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { type Asked, everyCall } from "../harness/every-call.ts";
import { kustomizeWith } from "../harness/kustomize.ts";
import { describeReal } from "../harness/real-parts.ts";
import { startKubeApiServer } from "../real-api/kube-apiserver.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 120_000;
const SYSTEM = "tidemark-system";
const MEMBERS = "tidemark-volumes";
/** By an admission policy, or since no role allows it. */
const BY_POLICY = /ValidatingAdmissionPolicy/;
const BY_ROLE = /^403 .*cannot/;

let api: ApiUnderTest;

async function kubectl(...args: readonly string[]): Promise<void> {
  await promisify(execFile)("kubectl", ["--server", api.url, ...args], { maxBuffer: 1 << 26 });
}

/** As a team has it that places pods by free room, and has policies checked before they are stored. */
async function installWithWebhooks(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-webhooks-"));
  const file = join(directory, "all.yaml");
  writeFileSync(file, kustomizeWith("overlays/minimal", {}, ["components/placement", "components/policy-admission"]));
  await kubectl("apply", "--server-side", "-f", file);
  rmSync(directory, { recursive: true });
}

interface Call {
  /** A service account of our namespace; absent: an administrator. */
  readonly as: string | undefined;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: object;
  readonly contentType?: string;
}

/** In the name of that service account. */
function headersOf(as: string | undefined, contentType: string): Headers {
  const headers = new Headers({ "content-type": contentType });
  if (as === undefined) return headers;
  headers.set("Impersonate-User", `system:serviceaccount:${SYSTEM}:${as}`);
  for (const group of ["system:serviceaccounts", `system:serviceaccounts:${SYSTEM}`, "system:authenticated"])
    headers.append("Impersonate-Group", group);
  return headers;
}

/** The object; throws "code message". */
async function call({ as, method, path, body, contentType = "application/json" }: Call): Promise<KubeObject> {
  const headers = headersOf(as, contentType);
  const answer = await fetch(`${api.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const said = (await answer.json()) as KubeObject & { message?: string };
  if (!answer.ok) throw new Error(`${answer.status} ${said.message ?? ""}`);
  return said;
}

/** A collection's path, and the object's name in it. */
interface Target {
  readonly of: string;
  readonly name: string;
}

const patch = (as: string | undefined, { of, name }: Target, body: object) =>
  call({ as, method: "PATCH", path: `${of}/${name}`, body, contentType: "application/merge-patch+json" });
const apply = (as: string, { of, name }: Target, body: object) => {
  const path = `${of}/${name}?fieldManager=test`;
  return call({ as, method: "PATCH", path, body, contentType: "application/apply-patch+yaml" });
};
const read = (as: string | undefined, { of, name }: Target) => call({ as, method: "GET", path: `${of}/${name}` });
/** The whole object, as it was read. */
const replace = (as: string, { of, name }: Target, body: object) =>
  call({ as, method: "PUT", path: `${of}/${name}`, body });
const remove = (as: string | undefined, { of, name }: Target) => call({ as, method: "DELETE", path: `${of}/${name}` });
const create = (as: string | undefined, of: string, body: object) => call({ as, method: "POST", path: of, body });

/** What any write changes. */
async function versionOf({ of, name }: Target): Promise<unknown> {
  const { uid, resourceVersion } = (await call({ as: undefined, method: "GET", path: `${of}/${name}` })).metadata;
  return { uid, resourceVersion };
}

async function isRefused(target: Target, attack: () => Promise<unknown>, by = BY_POLICY): Promise<void> {
  const before = await versionOf(target);
  await expect(attack()).rejects.toThrow(by);
  expect(await versionOf(target)).toEqual(before);
}

/** "verb resource" of all that the account may do in every namespace, but for asking who it is. */
async function allowedTo(as: string): Promise<string[]> {
  const ask = async ({ method, path, contentType }: Asked): Promise<boolean> => {
    const { status } = await fetch(`${api.url}${path}`, {
      method,
      headers: headersOf(as, contentType),
      ...(method === "GET" || method === "DELETE" ? {} : { body: "{}" }),
    });
    return status !== 403;
  };
  const allowed: string[] = [];
  for (const asked of await everyCall(api.url)) if (await ask(asked)) allowed.push(asked.name);
  return allowed.filter((name) => !name.startsWith("create selfsubject")).sort();
}

const READ_BY_EXTENDER = [
  "csinodes",
  "filesystemlayouts",
  "logicalvolumes",
  "nodes",
  "nodestorages",
  "persistentvolumeclaims",
  "persistentvolumes",
  "pods",
  "storageclasses",
  "volumeattachments",
];
const UID = "0b7c52d0-6bd2-4c6f-a0f1-1d4f3f0a8a11";
const inNamespace = (namespace: string, plural: string): string => `/api/v1/namespaces/${namespace}/${plural}`;
const LAYOUTS = "/apis/tidemark.dev/v1alpha1/filesystemlayouts";
const FILESYSTEMS = "/apis/tidemark.dev/v1alpha1/namespaces/shop/filesystems";
const CLAIMS = inNamespace("shop", "persistentvolumeclaims");
const MEMBER_CLAIMS = inNamespace(MEMBERS, "persistentvolumeclaims");
const VOLUMES = "/api/v1/persistentvolumes";
const CLASSES = "/apis/storage.k8s.io/v1/storageclasses";
const ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments";
const EVENTS = inNamespace("shop", "events");
const SECRETS = inNamespace(SYSTEM, "secrets");
/** The list that has that one alone: RBAC allows it by name. */
const secretNamed = (name: string): string => `${SECRETS}?fieldSelector=metadata.name%3D${name}`;
const TARGET = { size: "2Gi", from: "1Gi", epoch: 1, decidedAt: "2026-01-01T00:00:00Z" };
const LAYOUT: Target = { of: LAYOUTS, name: `fs-${UID}` };
const FILESYSTEM: Target = { of: FILESYSTEMS, name: "data" };
const CLAIM: Target = { of: CLAIMS, name: "data" };
const MEMBER: Target = { of: MEMBER_CLAIMS, name: "m0" };
const GUARD: Target = { of: inNamespace(MEMBERS, "configmaps"), name: "tidemark-members" };
const FOREIGN_VOLUME: Target = { of: VOLUMES, name: "foreign" };
const OWN_VOLUME: Target = { of: VOLUMES, name: "own" };
const MEMBER_VOLUME: Target = { of: VOLUMES, name: "of-a-member" };
const FOREIGN_ATTACHMENT: Target = { of: ATTACHMENTS, name: "foreign" };
const POD_WEBHOOK: Target = {
  of: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
  name: "tidemark-pod-placement",
};
const POLICY_WEBHOOK: Target = {
  of: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
  name: "tidemark-policies",
};
const FOREIGN_EVENT: Target = { of: EVENTS, name: "foreign" };

/** As the namespace's Pod Security level asks. */
const RESTRICTED = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };
const claimOf = (name: string, labels: object = {}, volumeName?: string) => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name, labels },
  spec: {
    accessModes: ["ReadWriteOnce"],
    storageClassName: "any",
    resources: { requests: { storage: "1Gi" } },
    volumeName,
  },
});
const volumeOf = (name: string, source: object, claimRef?: object) => ({
  apiVersion: "v1",
  kind: "PersistentVolume",
  metadata: { name },
  spec: {
    accessModes: ["ReadWriteOnce"],
    capacity: { storage: "1Gi" },
    ...source,
    ...(claimRef === undefined ? {} : { claimRef }),
  },
});
const csi = (driver: string) => ({ csi: { driver, volumeHandle: `${driver}-1` } });
const attachmentOf = (name: string, labels: object = {}) => ({
  apiVersion: "storage.k8s.io/v1",
  kind: "VolumeAttachment",
  metadata: { name, labels },
  spec: { attacher: "csi.example.com", nodeName: "node-1", source: { persistentVolumeName: "foreign" } },
});
const membersOf = (members: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: GUARD.name },
  data: { members, operator: `system:serviceaccount:${SYSTEM}:operator` },
});
const eventOf = (name: string, component: string, namespace = "shop") => ({
  apiVersion: "v1",
  kind: "Event",
  metadata: { name },
  involvedObject: { kind: "Pod", namespace, name: "web" },
  type: "Warning",
  reason: "Failed",
  message: "it is on fire",
  source: { component },
});
const tokenSecret = (account: string, name: string) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, annotations: { "kubernetes.io/service-account.name": account } },
  type: "kubernetes.io/service-account-token",
});

describeReal("who steals the token of one of our processes", ["cluster"], () => {
  beforeAll(async () => {
    api = await startKubeApiServer(0, "RBAC");
    await kubectl("apply", "--server-side", "-k", "kustomize/foundation");
    await installWithWebhooks();
    await kubectl("create", "namespace", "shop");
    const definitions = ["filesystems", "filesystemlayouts"].map((name) => `crd/${name}.tidemark.dev`);
    await kubectl("wait", "--for=condition=Established", ...definitions);
    const expandable = { allowVolumeExpansion: true, provisioner: "csi.example.com", metadata: { name: "any" } };
    await create(undefined, CLASSES, { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", ...expandable });
    await create(undefined, CLAIMS, claimOf("data", {}, "bound"));
    const bound = { status: { phase: "Bound", capacity: { storage: "1Gi" } } };
    await patch(undefined, { of: CLAIMS, name: "data/status" }, bound);
    await create(undefined, VOLUMES, volumeOf("foreign", csi("csi.example.com")));
    await create(undefined, ATTACHMENTS, attachmentOf("foreign"));
    await create(undefined, EVENTS, eventOf("foreign", "kubelet"));
    await create("operator", MEMBER_CLAIMS, claimOf("m0", { "tidemark.dev/volume-uid": UID }));
    await apply("operator", GUARD, membersOf("some"));
    await create("operator", VOLUMES, volumeOf("own", csi("local.tidemark.dev")));
    const ofMember = { namespace: MEMBERS, name: "m0" };
    await create(undefined, VOLUMES, volumeOf("of-a-member", csi("csi.member.example.com"), ofMember));
    await create("operator", LAYOUTS, {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "FilesystemLayout",
      metadata: { name: LAYOUT.name, finalizers: ["tidemark.dev/volume"], labels: { team: "shop" } },
      spec: {
        volumeUID: UID,
        backend: "loop",
        fsType: "btrfs",
        nodeName: "node-1",
        claimRef: { namespace: "shop", name: "data", uid: UID },
        members: [{ name: "m0", source: { loop: { file: "m0" } } }],
      },
    });
    await create("operator", FILESYSTEMS, {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "Filesystem",
      metadata: { name: FILESYSTEM.name },
      spec: { claimRef: { name: "data", uid: UID } },
    });
  }, BUILD_LIMIT_MS);
  afterAll(() => api?.close(), LIMIT_MS);

  describe("the policy-engine's", () => {
    it("writes targets, trims and grants, as the policy-engine does", async () => {
      await patch("policy-engine", FILESYSTEM, { spec: { target: TARGET } });
      const emergency = { size: "3Gi", minAvailable: "64Mi", expiry: "2026-01-01T00:00:00Z", epoch: 1 };
      await patch("policy-engine", LAYOUT, { spec: { emergency } });
      await create("policy-engine", EVENTS, eventOf("scaled", "tidemark-policy-engine"));
    });

    it.each<[string, Target, object]>([
      ["the node that owns a layout", LAYOUT, { spec: { nodeName: "node-2" } }],
      ["the claim of a layout", LAYOUT, { spec: { claimRef: { namespace: "thief" } } }],
      [
        "the state of a member",
        LAYOUT,
        { spec: { members: [{ name: "m0", state: "Removed", source: { loop: { file: "m0" } } }] } },
      ],
      ["all members", LAYOUT, { spec: { members: null } }],
      ["a layout's target beside a grant", LAYOUT, { spec: { emergency: null, target: TARGET } }],
      ["a layout's finalizers", LAYOUT, { metadata: { finalizers: null } }],
      ["a layout's labels", LAYOUT, { metadata: { labels: { team: null } } }],
      ["a layout's annotations", LAYOUT, { metadata: { annotations: { "tidemark.dev/next-member": "0" } } }],
      [
        "a layout's owner, so that the garbage collector deletes it",
        LAYOUT,
        { metadata: { ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "gone", uid: UID }] } },
      ],
      ["the claim of a Filesystem", FILESYSTEM, { spec: { claimRef: { name: "other" } } }],
      ["an Event of the kubelet's", FOREIGN_EVENT, { message: "all is well" }],
    ])("cannot change %s", (_what, target, change) => isRefused(target, () => patch("policy-engine", target, change)));

    it.each<[string, Target, object]>([
      ["a claim's request", CLAIM, { spec: { resources: { requests: { storage: "2Gi" } } } }],
      ["who may delete members", GUARD, { data: { operator: "thief" } }],
    ])("may not change %s", (_what, target, change) =>
      isRefused(target, () => patch("policy-engine", target, change), BY_ROLE),
    );
  });

  // By the verbs that they have: they get and update the Secrets of their certificates, and patch none.
  describe.each([
    ["policy-engine", "tidemark-policy-engine-ca"],
    ["policy-engine", "tidemark-policy-webhook-ca"],
    ["operator", "tidemark-pod-webhook-ca"],
  ])("the %s's, and the Secret %s that it may write", (thief, name) => {
    const secret: Target = { of: SECRETS, name };
    it("writes a certificate into it, as the process does", async () => {
      await replace(thief, secret, { ...(await read(thief, secret)), data: { "tls.crt": "bm9uZQ==" } });
    });

    it.each(["operator", "policy-engine", "ca-publisher", "policy-ca-publisher", "default"])(
      "cannot make it one that gets the token of the account %s: its type stays",
      async (account) => {
        const before = await read(thief, secret);
        const { type, metadata } = tokenSecret(account, name);
        const stolen = { ...before, type, metadata: { ...before.metadata, ...metadata } };
        await isRefused(secret, () => replace(thief, secret, stolen), /^422 .*type: Invalid value.*immutable/);
      },
    );

    it("cannot put one of another type in its place, neither under its name nor under a new one", async () => {
      await isRefused(secret, () => remove(thief, secret), BY_ROLE);
      await remove(undefined, secret);
      const token = tokenSecret("ca-publisher", name);
      await expect(create(thief, SECRETS, token)).rejects.toThrow(BY_ROLE);
      await expect(apply(thief, secret, token)).rejects.toThrow(BY_ROLE);
      await expect(replace(thief, secret, token)).rejects.toThrow(/^404 /);
      await expect(create(thief, SECRETS, tokenSecret("ca-publisher", "another"))).rejects.toThrow(BY_ROLE);
      await installWithWebhooks();
    });
  });

  describe("the operator's, or one of its sidecars'", () => {
    it.each<[string, object]>([
      ["whose filesystem a layout is of", { spec: { volumeUID: "another" } }],
      ["where its members come from", { spec: { backend: "lvm" } }],
      [
        "a member's file to one elsewhere",
        { spec: { members: [{ name: "m0", source: { loop: { file: "../shadow" } } }] } },
      ],
    ])("cannot change %s, which is in the definition", (_what, change) =>
      isRefused(LAYOUT, () => patch("operator", LAYOUT, change), /^422 /),
    );

    it("raises requests and keeps its own volumes and members, as the operator does", async () => {
      await patch("operator", CLAIM, { spec: { resources: { requests: { storage: "3Gi" } } } });
      await patch("operator", OWN_VOLUME, { metadata: { labels: { own: "true" } } });
      await patch("operator", MEMBER_VOLUME, { metadata: { labels: { "tidemark.dev/volume-uid": UID } } });
      await patch("operator", MEMBER, { metadata: { labels: { team: "shop" } } });
      await patch("operator", LAYOUT, { spec: { target: TARGET } });
      await create("operator", ATTACHMENTS, attachmentOf("of-a-member", { "tidemark.dev/volume-uid": UID }));
      await remove("operator", { of: ATTACHMENTS, name: "of-a-member" });
    });

    it.each<[string, Target, object]>([
      ["a claim's request to less", CLAIM, { spec: { resources: { requests: { storage: "2Gi" } } } }],
      ["what a claim asks of its driver", CLAIM, { spec: { volumeAttributesClassName: "gold" } }],
      ["a claim's labels", CLAIM, { metadata: { labels: { team: "thief" } } }],
      ["what a claim says of its end", CLAIM, { metadata: { annotations: { "tidemark.dev/on-node-loss": "Delete" } } }],
      ["a foreign volume's reclaim policy", FOREIGN_VOLUME, { spec: { persistentVolumeReclaimPolicy: "Delete" } }],
      ["a foreign attachment", FOREIGN_ATTACHMENT, { metadata: { labels: { "tidemark.dev/volume-uid": UID } } }],
    ])("cannot change %s", (_what, target, change) => isRefused(target, () => patch("operator", target, change)));

    it("cannot turn the pod webhook against other objects", () =>
      isRefused(POD_WEBHOOK, () => patch("operator", POD_WEBHOOK, { webhooks: null }), BY_ROLE));

    it.each<[string, Target]>([
      ["a claim that does not ask for it", CLAIM],
      ["a foreign volume", FOREIGN_VOLUME],
      ["a foreign attachment", FOREIGN_ATTACHMENT],
    ])("cannot delete %s", (_what, target) => isRefused(target, () => remove("operator", target)));

    it.each<[string, string, object]>([
      ["a volume of a node's own directory", VOLUMES, volumeOf("root", { hostPath: { path: "/" } })],
      ["a volume of another driver", VOLUMES, volumeOf("root", csi("csi.example.com"))],
      ["a namespace", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "lair" } }],
      ["a claim of a team's", CLAIMS, claimOf("stolen")],
      ["a foreign attachment", ATTACHMENTS, attachmentOf("stolen")],
    ])("cannot make %s", async (_what, of, object) => {
      await expect(create("operator", of, object)).rejects.toThrow(BY_POLICY);
    });
  });

  describe.each<[string, Target, string, string]>([
    ["ca-publisher", POD_WEBHOOK, "MutatingWebhookConfiguration", "pods.placement.tidemark.dev"],
    ["policy-ca-publisher", POLICY_WEBHOOK, "ValidatingWebhookConfiguration", "policies.tidemark.dev"],
  ])("the %s's", (thief, configuration, kind, webhook) => {
    const publishes = (target: Target) =>
      apply(thief, target, {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind,
        metadata: { name: target.name },
        webhooks: [{ name: webhook, clientConfig: { caBundle: "" } }],
      });
    const isOfPods = thief === "ca-publisher";
    const [own, others] = isOfPods ? ["pod", "policy"] : ["policy", "pod"];

    it("writes the one field, as the process does", async () => {
      await publishes(configuration);
    });

    it("cannot change another webhook, nor make one", async () => {
      const other = isOfPods ? POLICY_WEBHOOK : POD_WEBHOOK;
      await isRefused(other, () => patch(thief, other, { webhooks: null }), BY_ROLE);
      await expect(publishes({ of: configuration.of, name: "catch-all" })).rejects.toThrow(BY_ROLE);
    });

    it("lists the Secret with the webhook's certificate, and no other", async () => {
      await call({ as: thief, method: "GET", path: secretNamed(`tidemark-${own}-webhook-tls`) });
      const unread = [`tidemark-${own}-webhook-ca`, `tidemark-${others}-webhook-tls`, "tidemark-extender-tls"];
      for (const path of [...unread.map((one) => secretNamed(one)), SECRETS])
        await expect(call({ as: thief, method: "GET", path })).rejects.toThrow(BY_ROLE);
      const name = `tidemark-${own}-webhook-ca`;
      await expect(read(thief, { of: SECRETS, name })).rejects.toThrow(BY_ROLE);
    });

    it("makes none of all calls that name no object of its own", async () => {
      expect(await allowedTo(thief)).toEqual([]);
    });
  });

  describe("the extender's", () => {
    it("reads what its answers need, in all namespaces, and of all other calls that there are makes none", async () => {
      const allowed = await allowedTo("extender");
      expect(allowed).toEqual(READ_BY_EXTENDER.map((plural) => `list ${plural}`));
    });
    it("reads its own certificate, and no other Secret", async () => {
      await call({ as: "extender", method: "GET", path: secretNamed("tidemark-extender-tls") });
      for (const path of [secretNamed("tidemark-pod-webhook-ca"), secretNamed("tidemark-scheduler-tls"), SECRETS])
        await expect(call({ as: "extender", method: "GET", path })).rejects.toThrow(BY_ROLE);
    });
  });

  describe("the scheduler's, which is what Kubernetes lets a scheduler do", () => {
    it("cannot change whose volume a member is, nor have it deleted", async () => {
      await patch("operator", MEMBER_VOLUME, { metadata: { labels: { "tidemark.dev/volume-uid": UID } } });
      const letGo = { spec: { persistentVolumeReclaimPolicy: "Delete" } };
      await isRefused(MEMBER_VOLUME, () => patch("scheduler", MEMBER_VOLUME, letGo));
      const taken = { metadata: { labels: { "tidemark.dev/volume-uid": null } } };
      await isRefused(MEMBER_VOLUME, () => patch("scheduler", MEMBER_VOLUME, taken));
    });
    it("writes nothing of Tidemark's, no Secret, no role and no admission, and makes no pod", async () => {
      const allowed = await allowedTo("scheduler");
      expect(
        allowed.filter((one) => / (secrets|serviceaccounts|.*role.*|.*webhook.*|.*admission.*)$/.test(one)),
      ).toEqual([]);
      expect(allowed.filter((one) => /filesystem|layout|logicalvolume|nodestorage|volumepolic/.test(one))).toEqual([]);
      expect(allowed).toContain("create bindings");
      expect(allowed).not.toContain("create pods");
    });
  });

  describe("the one of an account that nothing binds, which all other pods of the namespace have", () => {
    it("makes no call", async () => {
      expect(await allowedTo("default")).toEqual([]);
    });
  });

  describe("an agent's", () => {
    it("reports in its own name", () => create("agent", EVENTS, eventOf("grown", "tidemark-agent")));
    it("cannot report in the kubelet's", async () => {
      await expect(
        create("agent", inNamespace("kube-system", "events"), eventOf("forged", "kubelet", "kube-system")),
      ).rejects.toThrow(/source.component/);
    });
    it("cannot change what others report", () =>
      isRefused(FOREIGN_EVENT, () => patch("agent", FOREIGN_EVENT, { message: "all is well" })));
  });

  describe("the one of a tenant who has all rights in the members' namespace", () => {
    beforeAll(async () => {
      const account = `--serviceaccount=${SYSTEM}:tenant`;
      await kubectl("--namespace", MEMBERS, "create", "rolebinding", "tenant", "--clusterrole=cluster-admin", account);
    });
    const podOn = (claimName: string) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "reader" },
      spec: {
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "reader",
            image: "reader",
            securityContext: RESTRICTED,
            volumeDevices: [{ name: "m", devicePath: "/dev/m" }],
          },
        ],
        volumes: [{ name: "m", persistentVolumeClaim: { claimName } }],
      },
    });

    it.each<[string, string, object]>([
      ["a pod, which would read a member", inNamespace(MEMBERS, "pods"), podOn("m0")],
      ["a claim", MEMBER_CLAIMS, claimOf("own")],
    ])("cannot make %s", async (_what, of, object) => {
      await expect(create("tenant", of, object)).rejects.toThrow(/is for members of volumes/);
    });
    it("cannot say who may delete members", () =>
      isRefused(GUARD, () => patch("tenant", GUARD, { data: { operator: "tenant" } })));
    it("cannot delete a member, nor say so in a ConfigMap that it has deleted", async () => {
      await isRefused(MEMBER, () => remove("tenant", MEMBER));
      await remove("tenant", GUARD);
      await isRefused(MEMBER, () => remove("tenant", MEMBER));
      const own = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: GUARD.name }, data: { operator: "tenant" } };
      await expect(create("tenant", GUARD.of, own)).rejects.toThrow(BY_POLICY);
      await expect(apply("tenant", GUARD, own)).rejects.toThrow(BY_POLICY);
      await apply("operator", GUARD, membersOf("some"));
    });
  });

  it("an administrator may do all of it", async () => {
    await remove(undefined, FOREIGN_VOLUME);
    await patch(undefined, GUARD, { data: { members: "none" } });
    await patch(undefined, LAYOUT, { metadata: { finalizers: null } });
  });
});
