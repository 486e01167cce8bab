import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { formerKubeletPath, kubeletPath } from "../../../../src/agent/csi/mount-volume.ts";

describe("a path in a request", () => {
  let directory: string;
  let kubelet: string;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-path-"));
    kubelet = join(directory, "kubelet");
    mkdirSync(join(kubelet, "pods/a"), { recursive: true });
    mkdirSync(join(directory, "elsewhere"));
    mkdirSync(join(directory, "kubelet-evil"));
    symlinkSync(join(directory, "elsewhere"), join(kubelet, "pods/link"));
    symlinkSync(kubelet, join(directory, "kubelet-link"));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  it("is taken when its parent lies under kubelet's directory, whether or not it exists", () => {
    expect(kubeletPath(kubelet, join(kubelet, "pods/a/mount"))).toBe(join(kubelet, "pods/a/mount"));
    expect(kubeletPath(join(directory, "kubelet-link"), join(kubelet, "pods/a"))).toBe(join(kubelet, "pods/a"));
  });

  it("is resolved when a directory above it is a symbolic link", () => {
    expect(kubeletPath(kubelet, join(directory, "kubelet-link/pods/a"))).toBe(join(kubelet, "pods/a"));
  });

  it.each([
    ["lies elsewhere", () => join(directory, "elsewhere/mount")],
    ["only begins like kubelet's directory", () => join(directory, "kubelet-evil/mount")],
    ["is kubelet's directory itself", () => kubelet],
    ["leaves it by a symbolic link", () => join(kubelet, "pods/link/mount")],
    ["climbs out of it", () => `${kubelet}/pods/../../elsewhere/mount`],
    ["is relative", () => "pods/a/mount"],
    ["has a parent that is not there", () => join(kubelet, "pods/b/mount")],
    ["holds a NUL", () => join(kubelet, "pods/a/mo\0unt")],
    ["is empty", () => ""],
  ])("is refused when it %s", (_when, path) => {
    expect(() => kubeletPath(kubelet, path())).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });

  it("may be left when its parents are gone already", () => {
    expect(formerKubeletPath(kubelet, join(kubelet, "pods/b/volumes/mount"))).toBe(
      join(kubelet, "pods/b/volumes/mount"),
    );
    expect(formerKubeletPath(kubelet, join(kubelet, "pods/a/mount"))).toBe(join(kubelet, "pods/a/mount"));
  });

  it.each([
    ["lies elsewhere", () => join(directory, "gone/elsewhere/mount")],
    ["leaves kubelet's directory by a symbolic link", () => join(kubelet, "pods/link/gone/mount")],
    ["climbs out of it", () => `${kubelet}/gone/../../elsewhere/mount`],
    ["is empty", () => ""],
  ])("is not left when it %s", (_when, path) => {
    expect(() => formerKubeletPath(kubelet, path())).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});
