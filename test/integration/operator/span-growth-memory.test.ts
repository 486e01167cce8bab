// What is remembered of a members' class on one volume is said, and forgotten, by every volume of the class, although nothing of theirs
// changes.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION } from "../../../src/contracts/names.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached } from "./span-under-test.ts";

let tested: SpanCluster;
beforeAll(async () => {
  tested = await startSpanCluster();
});
afterAll(() => tested.stop());

interface Volume {
  readonly handle: string;
  readonly claim: string;
}

/** Mounted, and at rest: the operator has no reason to look at it again. */
async function mounted(strategy: string): Promise<Volume> {
  const volume = await tested.span.created({ strategy });
  await tested.span.publish(volume.handle, "node-a");
  await tested.span.untilLayout("m0 is attached", volume.handle, isAttached("m0"));
  await tested.span.report(volume.handle, {
    nodeName: "node-a",
    mounted: true,
    members: [{ name: "m0", size: "2Gi", state: "Present" }],
  });
  await tested.span.untilCondition("it is ready", volume.claim, "Ready", ({ status }) => status === "True");
  return volume;
}

/** As the operator remembers it, of a growth of this volume. */
async function remember({ handle }: Volume, annotation: string): Promise<void> {
  const annotations = { [annotation]: new Date().toISOString() };
  await tested.cluster.client.mergePatch(
    "test/memory",
    FILESYSTEM_LAYOUTS,
    { name: handle },
    { metadata: { annotations } },
  );
}

const untilReason = ({ claim }: Volume, reason: string) =>
  tested.span.untilCondition(`it says ${reason}`, claim, "Reconciling", (said) => said.reason === reason);

it("a class that does not grow members, and one that does again, is said by all of its volumes at once", async () => {
  const [failing, other, adding] = [await mounted("Auto"), await mounted("GrowMember"), await mounted("AddMember")];
  await remember(failing, GROWTH_FAILED_ANNOTATION);
  expect((await untilReason(other, "GrowthFailed")).message).toContain("did not grow its device");
  await untilReason(failing, "GrowthFailed");
  expect((await tested.span.condition(adding.claim, "Reconciling"))?.reason).toBe("Ready");
  // Of any volume of the class it is the same news.
  await remember(adding, GROWTH_WORKED_ANNOTATION);
  await untilReason(other, "Ready");
  await untilReason(failing, "Ready");
});
