// What lvmd reads: its configuration, LVM's report, wipefs' signatures, the kernel's figures of disks, and its own records of tokens.
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseDiskFigures } from "../../../src/lvmd/devices.ts";
import { parseReport, type ReportedVolume } from "../../../src/lvmd/lvm/report.ts";
import { parseSettings } from "../../../src/lvmd/settings/follow-settings.ts";
import { readSignature } from "../../../src/lvmd/volumes/reduce/read-signature.ts";
import { loadReduceTokens } from "../../../src/lvmd/volumes/reduce/reductions.ts";
import type { CommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { LVMD_SETTINGS_TEXT } from "../../builders/lvmd-settings-text.ts";
import { doubleOf } from "../../fakes/double-of.ts";
import { jsonMutator, textMutator } from "../mutate.ts";
import { fixtures } from "../seeds.ts";
import { type FuzzTarget, pure } from "../target.ts";

/** Once accepted as an infinite spare, and once read in seconds. */
const LARGE = [
  "device-classes: [{ name: a, volume-group: vg, spare-gb: 1.0e+300 }]\n",
  `device-classes:\n${Array.from({ length: 6000 }, (_, index) => `  k${index}: 1\n`).join("")}`,
  // Once 100 ms of CPU: each line after the anchor is an error.
  `device-classes:\n  a: 1\n&a\n${Array.from({ length: 1300 }, (_, index) => `  k${index}: 1\n`).join("")}`,
];

const settings: FuzzTarget = {
  name: "lvmd.yaml",
  parsers: ["src/lvmd/settings/follow-settings.ts"],
  seeds: () => [
    LVMD_SETTINGS_TEXT,
    "device-classes: [{ name: a, volume-group: vg, default: true, spare-gb: 0 }]\n",
    ...LARGE,
  ],
  mutate: textMutator([
    ...["name: ", "volume-group: ", "default: true", "spare-gb: ", "stripe: ", "type: thin", "thin-pool: ", "\n  - "],
    ...[
      "&a ",
      "*a",
      "<<: ",
      "!!str ",
      "!!binary ",
      "? ",
      "- ",
      "[",
      "]",
      "{",
      "}",
      "|\n",
      ">\n",
      "---\n",
      "%YAML 1.1\n",
      "null",
      "~",
    ],
    ...[".inf", "1e308", "0x10", "--config=", "-L1", "../", "# ", ": ", "\t", "'", '"'],
  ]),
  refusals: ["SettingsError"],
  start: pure((input) => {
    const { deviceClasses, optionClasses, commandPrefix, socketName } = parseSettings(
      "lvmd.yaml",
      input.toString("utf8"),
    );
    assert.ok(deviceClasses.length > 0 && socketName.startsWith("/") && commandPrefix[0].startsWith("/"));
    assert.equal(new Set(deviceClasses.map(({ name }) => name)).size, deviceClasses.length, "two classes of a name");
    assert.ok(deviceClasses.filter(({ isDefault }) => isDefault).length <= 1, "two default classes");
    for (const { name, volumeGroup, spareBytes, stripe = 1, thinPool, lvcreateOptions } of deviceClasses) {
      assert.match(`${name} ${volumeGroup}`, /^[\w.+-]+ [\w.+][\w.+-]*$/);
      assert.ok(Number.isSafeInteger(spareBytes) && spareBytes >= 0, `${spareBytes} spare bytes`);
      assert.ok(Number.isSafeInteger(stripe) && stripe >= 1, `${stripe} stripes`);
      const ratio = thinPool?.overprovisionRatio ?? 1;
      assert.ok(ratio >= 1 && Number.isFinite(ratio), `a ratio of ${ratio}`);
      for (const option of lvcreateOptions) assert.doesNotMatch(option, /^(--(config|name|size)|-[nL])/);
    }
    for (const { name } of optionClasses) assert.match(name, /^[\w.-]+$/);
  }),
  cost: 20,
};

const REPORT = {
  report: [
    {
      vg: [
        {
          vg_name: "kv",
          vg_size: "2143289344",
          vg_free: "1061158912",
          vg_extent_size: "4194304",
          vg_attr: "wz--n-",
          vg_missing_pv_count: "0",
        },
      ],
      pv: [{ pv_name: "/dev/ubde", pv_free: "1061158912" }],
      lv: [
        volume({
          lv_name: "pool",
          lv_attr: "twi-aotz--",
          data_percent: "12.34",
          metadata_percent: "11.04",
          lv_metadata_size: "4194304",
          lv_path: "",
        }),
        volume({
          lv_name: "t1",
          lv_uuid: "UTnD1K",
          lv_tags: "a=b,c",
          lv_attr: "Vwi-a-tz--",
          data_percent: "1.50",
          pool_lv: "pool",
        }),
        volume({ lv_name: "off", lv_uuid: "1hM2Hn", lv_kernel_major: "-1", lv_kernel_minor: "-1" }),
        volume({ lv_name: "snap", lv_uuid: "snapid", origin_size: "104857600", origin: "off", data_percent: "0.00" }),
      ],
      pvseg: [],
      seg: [
        { lv_uuid: "1hM2Hn", data_stripes: "2", segtype: "striped", chunk_size: "0" },
        { lv_uuid: "3XBYjM", data_stripes: "1", segtype: "thin-pool", chunk_size: "65536" },
      ],
    },
  ],
};

function volume(fields: Record<string, string>): Record<string, string> {
  return {
    ...{
      lv_name: "",
      lv_uuid: "3XBYjM",
      lv_size: "1073741824",
      origin_size: "",
      lv_path: "/dev/kv/x",
      lv_kernel_major: "254",
    },
    ...{ lv_kernel_minor: "2", lv_tags: "", lv_attr: "-wi-------", origin: "", data_percent: "", metadata_percent: "" },
    ...{ pool_lv: "", lv_metadata_size: "" },
    ...fields,
  };
}

const COUNT = /^\d+$/;

/** A row says the same as the volume that was read of it. */
function assertVolume(row: Record<string, string>, read: ReportedVolume): void {
  const { lv_size: size = "", origin_size: originSize = "", lv_kernel_major: major = "" } = row;
  const sizes = [size, originSize].filter((text) => COUNT.test(text)).map(Number);
  assert.ok(sizes.includes(read.sizeBytes), `${read.sizeBytes} bytes stand nowhere`);
  assert.deepEqual([read.uuid, read.pool, read.origin], [row["lv_uuid"], row["pool_lv"], row["origin"]]);
  assert.equal(read.tags.join(","), (row["lv_tags"] ?? "").split(",").filter(Boolean).join(","));
  if (read.device !== undefined) assert.equal(String(read.device.major), major);
  assert.ok(Number.isSafeInteger(read.metadataSizeBytes) && read.metadataSizeBytes >= 0, "metadata");
  for (const percent of [read.dataPercent, read.metadataPercent])
    assert.ok((percent >= 0 && percent <= 100) || (Number.isNaN(percent) && read.attr.startsWith("t")), `${percent} %`);
  assert.ok(Number.isSafeInteger(read.dataColumns) && Number.isSafeInteger(read.chunkBytes));
}

const report: FuzzTarget = {
  name: "LVM's report",
  parsers: ["src/lvmd/lvm/report.ts"],
  // Those behind the first once threw what nobody catches, or had NaN for figures.
  seeds: () => [
    ...[REPORT, null, { report: [null] }, { report: [{ vg: [{}], seg: "" }] }, { report: [{ vg: [null] }] }].map(
      (one) => JSON.stringify(one),
    ),
    ...["x", "-5", "200"].map((figure) => JSON.stringify(REPORT).replace('"1.50"', JSON.stringify(figure))),
    JSON.stringify(REPORT).replace('"4194304", "lv_path"', '"4 MiB", "lv_path"'),
  ],
  mutate: jsonMutator([
    "lv_size",
    "lv_attr",
    "twi---tz--",
    "1.5",
    "-1",
    "1e3",
    "0x10",
    " 5",
    "100.00",
    "101",
    "1g",
    "a,b",
    "thin-pool",
  ]),
  refusals: ["LvmError"],
  start: pure((input) => {
    const text = input.toString("utf8");
    const groups = parseReport(text);
    const { report: sections } = JSON.parse(text) as {
      report: Record<string, Record<string, string>[] | null>[] | null;
    };
    const names = (sections ?? []).flatMap(({ vg }) => (vg ?? []).map(({ vg_name: name = "" }) => name));
    for (const { vg, lv } of sections ?? [])
      for (const { vg_name: name = "" } of vg ?? []) {
        const group = groups.get(name);
        // Of two groups of a name the later is read.
        if (group === undefined || names.filter((one) => one === name).length > 1) continue;
        for (const row of lv ?? []) {
          const read = group.volumes.get(row["lv_name"] ?? "");
          if (read !== undefined && lv?.filter((one) => one["lv_name"] === read.name).length === 1)
            assertVolume(row, read);
        }
      }
  }),
  cost: 2,
};

const signatures: FuzzTarget = {
  name: "wipefs' signatures",
  parsers: ["src/lvmd/volumes/reduce/read-signature.ts"],
  seeds: () => [
    "",
    '{"signatures":[{"device":"loop0","offset":"0x10040","type":"btrfs","uuid":"a","label":null}]}',
    '{"signatures":[{"type":"ext4"},{"type":"xfs"}]}',
    // Once no error of LVM.
    ...["}", "null", '{"signatures":[null]}', '{"signatures":7}'],
  ],
  mutate: jsonMutator(["type", "signatures", "ext4", "LVM2_member", "xfs"]),
  refusals: ["LvmError"],
  start: (directory) => {
    const device = join(directory, "device");
    writeFileSync(device, Buffer.alloc(4096));
    return {
      take: async (input) => {
        const answer = { exitCode: 0, stdout: input.toString("utf8"), stderr: "" };
        const commands = doubleOf<CommandPort>("CommandPort", { query: async () => answer });
        const found = await readSignature(commands, device, 1 << 20);
        // Nothing is on it, whatever wipefs says.
        assert.equal(found.kind, "Unknown");
        assert.equal(typeof (found.kind === "Unknown" && found.what), "string");
      },
    };
  },
};

const diskFigures: FuzzTarget = {
  name: "the kernel's figures of disks",
  parsers: ["src/lvmd/devices.ts"],
  seeds: () => [
    "   7       0 loop0 51 0 722 12 0 0 0 0 0 16 12 0 0 0 0 0 0\n 254       0 vda 1 2 3 4 5 6 7 8 9 10 11\n",
    // Once figures that are NaN.
    "7 1 0 7 2 0 0 l 1 0 2 2 0 c\n",
    " 259 1 nvme0n1p1 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
  ],
  mutate: textMutator([" ", "\n", "-1", "1e9", "0x1", "x"]),
  refusals: [],
  start: pure((input) => {
    for (const [device, figures] of parseDiskFigures(input.toString("utf8")))
      for (const [name, figure] of Object.entries(figures))
        assert.ok(Number.isFinite(figure) && figure >= 0, `${name} of ${device} is ${figure}`);
  }),
};

const tokens: FuzzTarget = {
  name: "lvmd's tokens",
  parsers: ["src/lvmd/volumes/reduce/reductions.ts"],
  // The last were once accepted, or threw what names no file.
  seeds: () => [...fixtures("lvmd/tokens"), "", "null", "{}", '{"token":"it","end":{"state":"Begun"},"atMs":0}'],
  mutate: jsonMutator(["Begun", "Reduced", "Refused", "Burnt", "state", "end", "token", "atMs"]),
  refusals: ["ReduceTokenError"],
  start: (directory) => {
    const path = join(directory, "token-it.json");
    const clock = { nowMs: () => 0, monotonicMs: () => 0 };
    const load = (text: Buffer | string) => {
      writeFileSync(path, text);
      return loadReduceTokens(directory, createFilePort(directEffects), clock);
    };
    return {
      take: (input) => {
        const read = load(input);
        const { token } = JSON.parse(input.toString("utf8")) as { token: string };
        const record = read.get(token);
        assert.ok(record !== undefined && record.end.state.length > 0);
        const text = JSON.stringify(record);
        assert.equal(JSON.stringify(load(text).get(token)), text, "another one when it is read again");
        for (const open of read.open())
          assert.ok(open.end.state === "Begun" && Number.isSafeInteger(open.end.targetBytes));
      },
      end: () => rmSync(path, { force: true }),
    };
  },
  cost: 4,
};

export const LVMD_TARGETS: readonly FuzzTarget[] = [settings, report, signatures, diskFigures, tokens];
