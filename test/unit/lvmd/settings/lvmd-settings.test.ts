import { describe, expect, it } from "@jest/globals";
import { parseSettings, SettingsError } from "../../../../src/lvmd/settings/follow-settings.ts";
import { LVMD_SETTINGS_TEXT } from "../../../builders/lvmd-settings-text.ts";

const parse = (text: string) => parseSettings("lvmd.yaml", text);
const GIB = 2 ** 30;

describe("lvmd's configuration", () => {
  it("is TopoLVM's, key by key", () => {
    const settings = parse(LVMD_SETTINGS_TEXT);
    expect(settings).toEqual({
      socketName: "/run/topolvm/lvmd.sock",
      commandPrefix: ["/usr/bin/nsenter", "-t", "1", "/sbin/lvm"],
      deviceClasses: [
        {
          name: "ssd",
          volumeGroup: "myvg1",
          isDefault: true,
          spareBytes: 20 * GIB,
          stripe: 2,
          stripeSize: "64",
          lvcreateOptions: ["--mirrors=1"],
          thinPool: undefined,
        },
        {
          name: "ssd-thin",
          volumeGroup: "myvg1",
          isDefault: false,
          spareBytes: 10 * GIB,
          stripe: undefined,
          stripeSize: undefined,
          lvcreateOptions: [],
          thinPool: { name: "pool0", overprovisionRatio: 5.5 },
        },
      ],
      optionClasses: [{ name: "raid", options: ["--type=raid1"] }],
    });
  });

  it("has TopoLVM's defaults", () => {
    const settings = parse("device-classes: [{ name: a, volume-group: g }]");
    expect(settings.socketName).toBe("/run/tidemark/lvmd.sock");
    expect(settings.commandPrefix.join(" ")).toBe("/usr/bin/nsenter -m -u -i -n -p -t 1 /sbin/lvm");
  });

  it.each([
    ["", 1, "empty"],
    ["device-classes: []", 1, "is empty"],
    ["socket-name: /a", 1, "no device-classes"],
    ["socket-name: relative\ndevice-classes: [{ name: a, volume-group: g }]", 1, "not an absolute path"],
    ["device-classes:\n- name: a\n  volume-group: g\n  spare-GB: 1", 4, '"spare-GB" is not known'],
    ["device-classes:\n- name: a\n  volume-group: g\n  spare-gb: -1", 4, "-1 is not a whole number"],
    ["device-classes:\n- name: a\n  volume-group: g\n  default: maybe", 4, "neither true nor false"],
    ["device-classes:\n- name: a\n  volume-group: -g", 3, "is not a name of LVM"],
    ["device-classes:\n- name: a/b\n  volume-group: g", 2, "1 to 63 letters"],
    ["device-classes:\n- volume-group: g", 2, "has no name"],
    ["device-classes:\n- { name: a, volume-group: g }\n- { name: a, volume-group: h }", 3, "name of another class"],
    ["device-classes:\n- { name: a, volume-group: g }\n- { name: b, volume-group: g }", 3, "same volume group as a"],
    [
      "device-classes:\n- { name: a, volume-group: g, default: true }\n- { name: b, volume-group: h, default: true }",
      3,
      "second default class; a is the default",
    ],
    ["device-classes:\n- name: a\n  volume-group: g\n  type: fat", 4, "neither thick nor thin"],
    ["device-classes:\n- name: a\n  volume-group: g\n  type: thin", 2, "no thin-pool"],
    ["device-classes:\n- name: a\n  volume-group: g\n  thin-pool: { name: p }", 4, "not of type thin"],
    [
      "device-classes:\n- name: a\n  volume-group: g\n  type: thin\n  thin-pool: { name: p }",
      5,
      "no overprovision-ratio",
    ],
    [
      "device-classes:\n- name: a\n  volume-group: g\n  type: thin\n  thin-pool:\n    name: p\n    overprovision-ratio: 0.5",
      7,
      "less than 1",
    ],
    ["device-classes:\n- name: a\n  volume-group: g\n  lvcreate-options:\n  - --config=x", 5, "lvmd's own"],
    ["device-classes:\n- name: a\n  volume-group: g\n  lvcreate-options:\n  - -n", 5, "lvmd's own"],
    ["device-classes:\n- name: a\n  volume-group: g\n  name: b", 4, "appears twice"],
    [
      "device-classes:\n- name: a\n  volume-group: g\n  spare-gb: 1.0e+300",
      4,
      "is not a whole number from 0 to 1048576",
    ],
    ["device-classes: [{ name: a, volume-group: g }]\nlvm-command-prefix: []", 2, "ends with LVM's program"],
    ["device-classes: [{ name: a, volume-group: g }]\nlvm-command-prefix: [lvm]", 2, "not an absolute path"],
    ["device-classes:\n- name: [a", 2, ""],
    ["device-classes: &x\n- { name: a, volume-group: g }\nlvcreate-option-classes: *x", 3, "is an alias"],
  ])("is refused with its line: %j", (text, line, problem) => {
    expect(() => parse(text)).toThrow(SettingsError);
    expect(() => parse(text)).toThrow(new RegExp(`^lvmd.yaml:${line}: .*${problem}`));
  });
});
