import { describe, expect, it } from "@jest/globals";
import { kubeletMounts } from "../../../../src/agent/ordinary-claims/find-claims.ts";

const KUBELET = "/var/lib/kubelet";
const found = (...paths: string[]) =>
  kubeletMounts(
    KUBELET,
    paths.map((path) => ({
      mountPath: `${KUBELET}/${path}`,
      root: "/",
      fsType: "ext4",
      source: "/dev/x",
      readOnly: false,
    })),
  );

describe("kubelet's mounts of CSI volumes", () => {
  it("are those of CSI drivers", () =>
    expect(found("pods/u1/volumes/kubernetes.io~csi/pvc-1/mount")).toEqual([
      {
        ...{ volumeName: "pvc-1", server: "ext4 /dev/x" },
        mountPath: `${KUBELET}/pods/u1/volumes/kubernetes.io~csi/pvc-1/mount`,
      },
    ]));

  it.each([
    ["an emptyDir in memory that a pod calls like a volume", "pods/u1/volumes/kubernetes.io~empty-dir/pvc-1"],
    ["a local volume, which nobody can expand", "pods/u1/volumes/kubernetes.io~local-volume/pv-1"],
    ["a flex volume", "pods/u1/volumes/acme~disk/pv-2"],
    ["a projected volume", "pods/u1/volumes/kubernetes.io~projected/pvc-1"],
    ["a path below a volume", "pods/u1/volumes/kubernetes.io~csi/pvc-1/mount/lost+found"],
    ["a container's subPath", "pods/u1/volume-subpaths/pvc-1/app/0"],
    ["where a driver stages it", "plugins/kubernetes.io/csi/block.example.com/abc/globalmount"],
    ["what is not mounted by CSI at its mount directory", "pods/u1/volumes/kubernetes.io~csi/pvc-1"],
  ])("are not %s", (_what, path) => expect(found(path)).toEqual([]));

  it.each([
    ["nfs4", "10.0.0.7:/exports/pvc-1", "nfs4 10.0.0.7"],
    ["nfs4", "[fd00::7]:/exports/pvc-1", "nfs4 [fd00::7]"],
    ["ceph", "10.0.0.1:6789,10.0.0.2:6789:/volumes/pvc-1", "ceph 10.0.0.1:6789,10.0.0.2:6789"],
    ["cifs", "//files.example.com/pvc-1", "cifs //files.example.com"],
    ["ext4", "/dev/disk/by-path/pci-0:00:/x", "ext4 /dev/disk/by-path/pci-0:00:/x"],
    ["fuse.geesefs", "bucket", "fuse.geesefs bucket"],
  ])("tell who answers for %s %s", (fsType, source, server) =>
    expect(
      kubeletMounts(KUBELET, [
        {
          ...{ mountPath: `${KUBELET}/pods/u1/volumes/kubernetes.io~csi/pvc-1/mount`, root: "/" },
          ...{ fsType, source, readOnly: false },
        },
      ]),
    ).toMatchObject([{ server }]),
  );

  it("are found under kubelet's directory only", () =>
    expect(
      kubeletMounts(KUBELET, [
        {
          ...{ mountPath: `/elsewhere${KUBELET}/pods/u1/volumes/kubernetes.io~csi/pvc-1/mount`, root: "/" },
          ...{ fsType: "ext4", source: "/dev/x", readOnly: false },
        },
      ]),
    ).toEqual([]));
});
