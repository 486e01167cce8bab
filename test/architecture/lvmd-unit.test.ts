import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { readConfig } from "../../src/lvmd/config.ts";

const DIRECTORY = "kustomize/host";

/** All values of each directive, whatever its section. */
function directivesOf(text: string): Map<string, string[]> {
  const directives = new Map<string, string[]>();
  for (const line of text.split("\n").filter((each) => /^[A-Z]\w*=/.test(each))) {
    const [name = "", ...value] = line.split("=");
    directives.set(name, [...(directives.get(name) ?? []), value.join("=")]);
  }
  return directives;
}

describe("the systemd unit of lvmd", () => {
  const directives = directivesOf(readFileSync(join(DIRECTORY, "tidemark-lvmd.service"), "utf8"));
  const settings = parse(readFileSync(join(DIRECTORY, "lvmd.yaml"), "utf8")) as Record<string, unknown>;
  const valueOf = (name: string): string => directives.get(name)?.join(" ") ?? "";
  const [program = "", ...words] = valueOf("ExecStart").split(" ");
  const config = readConfig(words.slice(words.indexOf("lvmd") + 1), {});

  it("starts Node.js by its path, so that no PATH says what root runs", () => {
    expect(program).toBe("/usr/bin/node");
    expect(words[0]).toMatch(/^\/usr\/lib\/tidemark\//);
  });

  it.each([
    ["NoNewPrivileges", "yes"],
    ["ProtectSystem", "strict"],
    ["ProtectHome", "yes"],
    ["PrivateTmp", "yes"],
    ["ProtectControlGroups", "yes"],
    ["ProtectKernelLogs", "yes"],
    ["ProtectKernelModules", "yes"],
    ["ProtectKernelTunables", "yes"],
    ["RestrictNamespaces", "yes"],
    ["RestrictSUIDSGID", "yes"],
    ["RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"],
    ["IPAddressDeny", "any"],
    ["IPAddressAllow", "localhost"],
    ["SystemCallArchitectures", "native"],
    ["SystemCallFilter", "@system-service"],
  ])("has %s=%s", (name, value) => {
    expect(valueOf(name)).toBe(value);
  });

  it("has device-mapper's capability, and none that loads code into the kernel, traces others or opens raw sockets", () => {
    const capabilities = valueOf("CapabilityBoundingSet").split(" ");
    expect(capabilities).toContain("CAP_SYS_ADMIN");
    for (const name of ["CAP_SYS_MODULE", "CAP_SYS_PTRACE", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_RAWIO"])
      expect(capabilities).not.toContain(name);
  });

  it("lets it write where it and LVM write", () => {
    const writable = valueOf("ReadWritePaths").split(" ");
    expect(writable).toEqual(expect.arrayContaining(["-/run/lock/lvm", dirname(config.backupDirectory)]));
    expect(`/run/${valueOf("RuntimeDirectory")}`).toBe(dirname(String(settings["socket-name"])));
    expect(`/var/lib/${valueOf("StateDirectory")}`).toBe(config.stateDirectory);
  });

  it("sets nothing that would take V8 its memory, LVM its devices, or lvmd its view of processes", () => {
    const breaking = ["MemoryDenyWriteExecute", "PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock"];
    for (const name of [...breaking, "PrivateIPC", "ProtectProc", "ProcSubset", "PrivateNetwork", "PrivateUsers"])
      expect(directives.has(name)).toBe(false);
  });

  it("comes with settings that enter no namespaces, which it could not", () => {
    expect(settings["lvm-command-prefix"]).toEqual(["/sbin/lvm"]);
  });
});
