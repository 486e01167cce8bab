import { describe, expect, it } from "@jest/globals";
import { LOCAL, SPAN } from "../../../../src/contracts/csi/driver.ts";
import { Refusal } from "../../../../src/contracts/csi/refusal.ts";
import type { LogicalVolume, LogicalVolumeStatus } from "../../../../src/contracts/kinds/logical-volume.ts";
import type { NodeStorage } from "../../../../src/contracts/kinds/node-storage.ts";
import type { StorageClass } from "../../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { classProblem, wantedCapacities } from "../../../../src/operator/capacity/decide-capacity.ts";
import { freeBytesOf, refusalOfRoom } from "../../../../src/operator/csi/create/placement.ts";
import { largestRequestBytes, parseClassParameters } from "../../../../src/operator/csi/requests/volume-parameters.ts";
import { finalFailure, madeVolume } from "../../../../src/operator/lvm/logical-volume-state.ts";
import {
  isIncomplete,
  recordOfPersistentVolume,
  volumeContextOf,
} from "../../../../src/operator/volumes/volume-record.ts";
import { buildPersistentVolume, NODE } from "../../../builders/volume.ts";

const VOLUME_ID = "99999999-2222-4333-8444-555555555555";

describe("the parameter deviceClass", () => {
  it.each([
    [{ backend: "lvm", deviceClass: "ssd" }, "ssd"],
    [{ backend: "lvm", deviceClass: "Fast_1.a-b" }, "Fast_1.a-b"],
    [{ backend: "lvm" }, undefined],
  ])("of %j is %s", (parameters, deviceClass) => {
    expect(parseClassParameters(parameters, LOCAL)).toMatchObject({ backend: "lvm", deviceClass });
  });

  it.each([
    [
      { backend: "loop", deviceClass: "ssd" },
      LOCAL,
      "parameter deviceClass is for the backend lvm, and backend is loop",
    ],
    [{ deviceClass: "ssd" }, LOCAL, "backend is not set"],
    [{ backend: "span", deviceClass: "ssd" }, SPAN, "unknown StorageClass parameters deviceClass"],
    [{ backend: "lvm", deviceClass: "" }, LOCAL, 'deviceClass is ""'],
    [{ backend: "lvm", deviceClass: "a/b" }, LOCAL, 'deviceClass is "a/b"'],
    [{ backend: "lvm", deviceClass: "--all" }, LOCAL, 'deviceClass is "--all"'],
    [{ backend: "lvm", deviceClass: "x".repeat(64) }, LOCAL, "at most 63"],
  ])("of %j is refused", (parameters, driver, text) => {
    expect(() => parseClassParameters(parameters, driver)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining(text) }),
    );
  });
});

const lvm = (name: string, free: string, more: object = {}) => ({ name, backend: "lvm" as const, free, ...more });

function buildStorage(...deviceClasses: NonNullable<NonNullable<NodeStorage["status"]>["deviceClasses"]>): NodeStorage {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "NodeStorage",
    metadata: { name: NODE },
    status: { deviceClasses },
  };
}

describe("a node's room", () => {
  const storage = buildStorage(
    { name: "loop", backend: "loop", free: "1Gi" },
    lvm("hdd", "30Gi"),
    lvm("ssd", "20Gi", { default: true }),
    lvm("broken", "40Gi", { problem: "a PV is missing" }),
  );
  it.each([
    ["loop", undefined, GIB],
    ["lvm", undefined, 20 * GIB],
    ["lvm", "hdd", 30 * GIB],
    ["lvm", "broken", 0],
    ["lvm", "loop", 0],
    ["lvm", "nvme", 0],
  ] as const)("of backend %s and class %s is %s", (backend, deviceClass, bytes) => {
    expect(freeBytesOf(storage, { backend, deviceClass })).toBe(bytes);
  });

  it("is not known before it was reported, and then nothing is refused", () => {
    const wanted = { backend: "lvm", deviceClass: "ssd" } as const;
    expect(freeBytesOf(undefined, wanted)).toBeUndefined();
    expect(freeBytesOf({ ...storage, status: {} }, wanted)).toBeUndefined();
    expect(refusalOfRoom(NODE, undefined, wanted, GIB)).toBeUndefined();
  });

  it.each([
    ["nvme", 'node node-1 has no device class "nvme" of backend lvm; it has: hdd, ssd, broken'],
    ["broken", "nothing can be made in device class broken of node node-1 now: a PV is missing"],
    ["ssd", "node node-1 has 20Gi left for members, and the volume needs 25Gi"],
  ])("refuses what %s cannot have, and says why", (deviceClass, text) => {
    const refusal = refusalOfRoom(NODE, storage, { backend: "lvm", deviceClass }, 25 * GIB);
    expect(refusal).toMatchObject({ code: "RESOURCE_EXHAUSTED", message: expect.stringContaining(text) });
  });

  it("says how full the thin pool is that takes no more", () => {
    const thinPool = { dataPercent: 83, metadataPercent: 12 };
    const [hdd] = buildStorage(lvm("hdd", "0")).status?.deviceClasses ?? [];
    const full = hdd && { ...storage, status: { deviceClasses: [{ ...hdd, thinPool }] } };
    expect(refusalOfRoom(NODE, full, { backend: "lvm", deviceClass: "hdd" }, GIB)?.message).toContain(
      "0 B left for members (its thin pool has 83% of its data and 12% of its metadata in use)",
    );
  });

  it("without a default class is said to have none", () => {
    const refusal = refusalOfRoom(
      NODE,
      buildStorage(lvm("hdd", "1Ti")),
      { backend: "lvm", deviceClass: undefined },
      GIB,
    );
    expect(refusal?.message).toContain("has no default device class of backend lvm; it has: hdd");
  });
});

describe("the largest request", () => {
  it.each([
    [20 * GIB, undefined, undefined, 20 * GIB],
    [20 * GIB, undefined, 5 * GIB, 5 * GIB],
    [20 * GIB, GIB, 50 * GIB, 50 * GIB],
    [20 * GIB, GIB, undefined, 4096 * 1024 * GIB],
    [20 * GIB, 21 * GIB, 50 * GIB, 0],
    [0, undefined, undefined, 0],
  ])("with %d free, initialSize %s and maxSize %s is %d", (freeBytes, initialBytes, maxBytes, largest) => {
    expect(largestRequestBytes(freeBytes, { initialBytes, maxBytes })).toBe(largest);
  });
});

describe("what is published of a node", () => {
  const classOf = (
    name: string,
    parameters: Record<string, string>,
    provisioner = "local.tidemark.dev",
  ): StorageClass => ({
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner,
    parameters,
  });
  const classes = [
    classOf("lvm", { backend: "lvm" }),
    classOf("refused", { backend: "lvm", unknown: "1" }),
    classOf("without", {}),
    classOf("span", { backend: "span", memberStorageClassName: "x" }, "span.tidemark.dev"),
    classOf("loop", { backend: "loop" }),
  ];

  it("is of classes of the local driver that say what they want, where the node has said what it has", () => {
    const wanted = wantedCapacities(classes, NODE, buildStorage(lvm("ssd", "20Gi", { default: true })));
    expect(wanted).toEqual([{ storageClassName: "lvm", nodeName: NODE, freeBytes: 20 * GIB, maximumBytes: 20 * GIB }]);
    expect(wantedCapacities(classes, NODE, undefined)).toEqual([]);
  });
});

describe("a class of which no node can ever give a volume", () => {
  const problemOf = (parameters: Record<string, string>, ...storages: NodeStorage[]) =>
    classProblem(
      {
        apiVersion: "storage.k8s.io/v1",
        kind: "StorageClass",
        metadata: { name: "class" },
        provisioner: "local.tidemark.dev",
        parameters,
      },
      storages,
    );
  const silent: NodeStorage = {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "NodeStorage",
    metadata: { name: "silent" },
  };
  const hdd = buildStorage(lvm("hdd", "0"));

  it.each([
    ["parameters that are refused", { backend: "lvm", speed: "1" }, [hdd], "unknown StorageClass parameters speed"],
    ["no backend", {}, [hdd], "has no parameter backend; local.tidemark.dev has: loop, lvm"],
    [
      "a class that nobody has",
      { backend: "lvm", deviceClass: "nvme" },
      [hdd],
      'no node (1 checked) has the device class "nvme"',
    ],
    ["no default anywhere", { backend: "lvm" }, [hdd, hdd], "no node (2 checked) has a default device class"],
    ["a class that is only full", { backend: "lvm", deviceClass: "hdd" }, [hdd], undefined],
    ["a class that a silent node may have", { backend: "lvm", deviceClass: "nvme" }, [hdd, silent], undefined],
    ["a class before any node has reported", { backend: "lvm", deviceClass: "nvme" }, [], undefined],
    ["another backend", { backend: "loop" }, [hdd], undefined],
  ])("%s", (_what, parameters, storages, text) => {
    const problem = problemOf(parameters, ...storages);
    if (text === undefined) expect(problem).toBeUndefined();
    else expect(problem).toContain(text);
  });
});

describe("a span's class with allowedTopologies", () => {
  type Binding = NonNullable<StorageClass["volumeBindingMode"]>;
  const problemOf = (volumeBindingMode: Binding, ...terms: string[][]) =>
    classProblem(
      {
        apiVersion: "storage.k8s.io/v1",
        kind: "StorageClass",
        metadata: { name: "class" },
        provisioner: "span.tidemark.dev",
        volumeBindingMode,
        allowedTopologies: terms.map((keys) => ({
          matchLabelExpressions: keys.map((key) => ({ key, values: ["a"] })),
        })),
      },
      [],
    );
  const RACK = "rack.example.com";
  const ZONE = "topology.kubernetes.io/zone";

  it.each<[string, Binding, string[][], string | undefined]>([
    ["of a zone is understood", "WaitForFirstConsumer", [[ZONE]], undefined],
    [
      "of a node in a region",
      "WaitForFirstConsumer",
      [["topology.tidemark.dev/node", "topology.kubernetes.io/region"]],
      undefined,
    ],
    ["of none", "WaitForFirstConsumer", [], undefined],
    ["of racks is not", "WaitForFirstConsumer", [[RACK]], `move ${RACK} to allowedTopologies of the members' class`],
    ["of racks in a zone is not", "WaitForFirstConsumer", [[ZONE, RACK]], `move ${RACK} to`],
    ["of racks or a zone has the zone", "WaitForFirstConsumer", [[RACK], [ZONE]], undefined],
    ["of racks, that binds at once, is", "Immediate", [[RACK]], undefined],
  ])("%s", (_what, binding, terms, text) => {
    const problem = problemOf(binding, ...terms);
    if (text === undefined) expect(problem).toBeUndefined();
    else expect(problem).toContain(text);
  });
});

describe("a LogicalVolume", () => {
  const build = (status?: LogicalVolumeStatus, volumeID?: string): LogicalVolume => ({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "LogicalVolume",
    metadata: { name: "fs-x", uid: VOLUME_ID, generation: 2 },
    spec: { nodeName: NODE, deviceClass: "ssd", size: "1Gi", ...(volumeID === undefined ? {} : { volumeID }) },
    ...(status === undefined ? {} : { status }),
  });

  it.each([
    ["that says nothing", build(), undefined],
    ["that cannot be had", build({ code: 8 }), "RESOURCE_EXHAUSTED"],
    ["that cannot be had as it was before", build({ code: 8, observedGeneration: 1 }), undefined],
    ["whose class is unknown", build({ code: 5, observedGeneration: 2 }), "NOT_FOUND"],
    ["that is refused", build({ code: 3 }), "INVALID_ARGUMENT"],
    ["whose lvmd does not answer", build({ code: 14 }), undefined],
    ["that is made, and could not grow", build({ code: 8, volumeID: VOLUME_ID }), undefined],
    ["that was there before, and is not found", build({ code: 5 }, VOLUME_ID), undefined],
  ])("%s", (_what, logicalVolume, failure) => {
    expect(finalFailure(logicalVolume)).toBe(failure);
  });

  it("is made when its node says by what name, or when it was there before", () => {
    expect(madeVolume(build())).toBeUndefined();
    expect(madeVolume(build({ volumeID: VOLUME_ID }))).toEqual({ volumeID: VOLUME_ID, deviceClass: "ssd" });
    expect(madeVolume(build(undefined, VOLUME_ID))).toEqual({ volumeID: VOLUME_ID, deviceClass: "ssd" });
  });
});

describe("the record of a lvm volume on its PersistentVolume", () => {
  const of = (attributes: Record<string, string>) =>
    recordOfPersistentVolume(buildPersistentVolume({ "tidemark.dev/backend": "lvm", ...attributes }));
  const whole = { "tidemark.dev/device-class": "ssd", "tidemark.dev/logical-volume": VOLUME_ID };

  it("is read as it was written", () => {
    const record = of(whole);
    if (isIncomplete(record)) throw new Error(record.missing.join());
    expect(record.logicalVolume).toEqual({ volumeID: VOLUME_ID, deviceClass: "ssd" });
    expect(volumeContextOf(record)).toMatchObject({ "tidemark.dev/backend": "lvm", ...whole });
  });

  it.each([
    ["the volume's name", { "tidemark.dev/device-class": "ssd" }],
    ["the class", { "tidemark.dev/logical-volume": VOLUME_ID }],
    ["a name that is ours", { ...whole, "tidemark.dev/logical-volume": "root" }],
  ])("without %s is incomplete, and nothing is guessed", (_what, attributes) => {
    const record = of(attributes);
    expect(record).toEqual({ missing: [expect.stringContaining("tidemark.dev/logical-volume")] });
  });

  it("is not looked for on volumes of other backends", () => {
    expect(of({ "tidemark.dev/backend": "loop" })).not.toBeInstanceOf(Refusal);
    expect(isIncomplete(of({ "tidemark.dev/backend": "loop" }))).toBe(false);
  });
});
