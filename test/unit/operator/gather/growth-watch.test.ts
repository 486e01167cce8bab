import { beforeEach, describe, expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION, RECORDS } from "../../../../src/contracts/names.ts";
import { GROWTH_MEMORY_MS } from "../../../../src/operator/decide/members/member-growth.ts";
import { memberClassOf, onClassGrowthChange } from "../../../../src/operator/gather/volume-caches.ts";
import { createNotifyingStore, type NotifyingStore } from "../../../../src/platform/kube/cache/store.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildSpan } from "../../../builders/span.ts";

const BEGIN_MS = Date.parse("2030-01-01T00:00:00.000Z");
let nowMs: number;
let layouts: NotifyingStore<FilesystemLayout>;
let looked: string[];
let version: number;

/** A span of this name and class, with what it remembers: seconds after the beginning. */
function put(name: string, className: string, remembered: { failed?: number; worked?: number } = {}): void {
  const layout = buildSpan({ sizes: ["2Gi"] });
  const { failed, worked } = remembered;
  const at = (seconds: number): string => new Date(BEGIN_MS + seconds * 1000).toISOString();
  const annotations = {
    ...layout.metadata.annotations,
    [RECORDS.memberClass]: className,
    ...(failed === undefined ? {} : { [GROWTH_FAILED_ANNOTATION]: at(failed) }),
    ...(worked === undefined ? {} : { [GROWTH_WORKED_ANNOTATION]: at(worked) }),
  };
  version += 1;
  layouts.put({ ...layout, metadata: { ...layout.metadata, name, resourceVersion: String(version), annotations } });
}

/** Those that are to be looked at since it was asked last. */
const looks = (): string[] => looked.splice(0).sort();

beforeEach(() => {
  nowMs = BEGIN_MS;
  version = 0;
  looked = [];
  layouts = createNotifyingStore<FilesystemLayout>(
    { "member-class": memberClassOf },
    "layouts",
    createLogger("test", "silent"),
  );
  onClassGrowthChange(layouts, { nowMs: () => nowMs }, (handle) => looked.push(handle));
  for (const name of ["a", "b", "c"]) put(name, "gp3");
  put("other", "io2");
  expect(looks()).toEqual([]);
});

describe("the volumes of a class", () => {
  it("are looked at when a member of one has failed to grow, and when one grows again", () => {
    put("a", "gp3", { failed: 0 });
    expect(looks()).toEqual(["a", "b", "c"]);
    put("b", "gp3", { worked: 1 });
    expect(looks()).toEqual(["a", "b", "c"]);
  });

  it("are not looked at for each further failure, nor for what else changes", () => {
    put("a", "gp3", { failed: 0 });
    looks();
    put("b", "gp3", { failed: 1 });
    put("c", "gp3", { failed: 2 });
    put("a", "gp3", { failed: 0 });
    expect(looks()).toEqual([]);
  });

  it("are looked at for a failure after the last one is forgotten", () => {
    put("a", "gp3", { failed: 0 });
    looks();
    nowMs += GROWTH_MEMORY_MS;
    put("b", "gp3", { failed: GROWTH_MEMORY_MS / 1000 });
    expect(looks()).toEqual(["a", "b", "c"]);
  });

  it("are looked at when the volume that remembers the failure is deleted", () => {
    put("a", "gp3", { failed: 0 });
    looks();
    layouts.remove("a");
    expect(looks()).toEqual(["b", "c"]);
  });

  it("are looked at when the memory of a volume is put back or taken away by hand", () => {
    put("a", "gp3", { failed: 0 });
    looks();
    put("a", "gp3");
    expect(looks()).toEqual(["a", "b", "c"]);
  });
});
