import { readdirSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../../../demo/stand-ins/config.ts";

describe("the standalone configuration", () => {
  it("finds the CustomResourceDefinitions by itself", () => {
    expect(readdirSync(readConfig([]).crdDirectory)).toContain("tidemark.dev_filesystems.yaml");
  });

  it("takes what it is told", () => {
    const args = [
      "--port",
      "0",
      "--node-name",
      "n",
      "--initial-size",
      "1Gi",
      "--fs-type",
      "ext4",
      "--crd-directory",
      "/x",
    ];
    expect(readConfig(args)).toMatchObject({
      port: 0,
      nodeName: "n",
      initialSize: "1Gi",
      fsType: "ext4",
      crdDirectory: "/x",
    });
  });

  it.each([
    [["--port", "70000"], "--port 70000 is not a port"],
    [["--fs-type", "zfs"], "--fs-type zfs is not one of btrfs, ext4, xfs"],
    [["--initial-size", "1GB"], '"1GB" is not a quantity'],
  ])("refuses %j", (args, text) => {
    expect(() => readConfig(args)).toThrow(text);
  });
});
