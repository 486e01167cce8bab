// What `kubectl get filesystems` shows of a Filesystem, as the API server prints it.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { writeFilesystem } from "../../../src/operator/apply/volume-objects.ts";
import { decideStatus, type StatusFacts } from "../../../src/operator/decide/decide-status.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildSpan } from "../../builders/span.ts";
import { HANDLE } from "../../builders/volume.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";

const log = createLogger("test", "silent");
let server: ApiUnderTest;
let client: ConnectedKubeClient;
beforeAll(async () => {
  server = await startApiUnderTest({ port: 0, log });
  client = createKubeClient({ connection: { server: server.url }, effects: directEffects, log });
  await bootstrap(client, {
    crdDirectory: "kustomize/foundation/crds",
    nodeName: "node-a",
    initialSize: "1Gi",
    fsType: "btrfs",
  });
});
afterAll(async () => {
  await client.close();
  await server.close();
});

interface Table {
  readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
  readonly rows: readonly { readonly cells: readonly unknown[] }[];
}

/** By the columns' names; those of `-o wide` are left out. */
async function shown(name: string): Promise<Record<string, unknown>> {
  const path = `/apis/tidemark.dev/v1alpha1/namespaces/default/filesystems/${name}`;
  const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
  const table = (await (await fetch(`${server.url}${path}`, { headers: { accept } })).json()) as Table;
  const [row] = table.rows;
  return Object.fromEntries(
    table.columnDefinitions.flatMap(({ name: column, priority }, index) =>
      priority === 0 ? [[column, row?.cells[index]]] : [],
    ),
  );
}

const waiting = { waiting: ["member m0: claim c of class gp3 is not bound yet"], problem: undefined, spare: undefined };
const unused = { ...buildSpan({ sizes: ["1Gi"] }), status: undefined };
const mounted = buildSpan({ sizes: ["1Gi"] });
const problem = { reason: "MemberFailed", message: "the claim is gone" } as const;

describe("a Filesystem in a list", () => {
  it.each<[string, Partial<StatusFacts>, string, string]>([
    ["whose first member waits for its driver", { layout: unused, members: waiting }, "False", "WaitingForMember"],
    ["whose first member cannot be had", { layout: unused, members: { ...waiting, problem } }, "False", "MemberFailed"],
    ["that is mounted and well", { layout: mounted }, "True", "Ready"],
    ["that is mounted and waits for a member", { layout: mounted, members: waiting }, "True", "WaitingForMember"],
    [
      "that is mounted, and has a member that its layout lacks",
      { layout: { ...mounted, spec: { ...mounted.spec, members: [] } }, members: waiting },
      "True",
      "MembersMissing",
    ],
  ])("%s says so in one word", async (_what, facts, ready, state) => {
    const name = `shown-${state.toLowerCase()}-${ready.toLowerCase()}`;
    const filesystem = await writeFilesystem(client, { namespace: "default", name, uid: `uid-${name}` }, false);
    const said: StatusFacts = {
      handle: HANDLE,
      filesystem,
      layout: undefined,
      missing: [],
      refusal: undefined,
      members: undefined,
      noGrowth: undefined,
      lostNode: undefined,
      consolidation: undefined,
      unfit: undefined,
      ...facts,
    };
    await client.apply("test/status", FILESYSTEMS, decideStatus(said, Date.now()), {
      fieldManager: FIELD_MANAGERS.operator,
      subresource: "status",
    });
    expect(await shown(name)).toMatchObject({ Ready: ready, State: state });
  });
});
