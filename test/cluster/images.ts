// The two images that every cluster has, packed from Debian's static busybox: what holds a pod's namespaces, and a shell for tests.
// There is no registry, so images are imported into each node's containerd, and pods say imagePullPolicy: Never.
import { join } from "node:path";
import type { Layer } from "../../scripts/image/layer.ts";
import { writeOciArchive } from "../../scripts/image/oci-archive.ts";
import type { ClusterPlaces } from "./places.ts";
import { runProgram } from "./run-program.ts";

export const PAUSE_IMAGE = "tidemark.test/pause:1";
export const BUSYBOX_IMAGE = "tidemark.test/busybox:1";
const BUSYBOX = "/bin/busybox";
/** Where a pod's containers share one PID namespace, it is the first process there, and reaps what it inherits. */
const PAUSE = "trap exit TERM INT; while :; do sleep 2147483647 & wait; done";

export async function writeClusterImages(places: ClusterPlaces): Promise<void> {
  const layer = await busyboxLayer();
  const [pause = "", busybox = ""] = clusterImages(places);
  await writeOciArchive({
    path: pause,
    names: [PAUSE_IMAGE],
    entrypoint: [BUSYBOX, "sh", "-c", PAUSE],
    layers: [layer],
  });
  await writeOciArchive({ path: busybox, names: [BUSYBOX_IMAGE], entrypoint: ["/bin/sh"], layers: [layer] });
}

/** The archives' paths. */
export function clusterImages(places: ClusterPlaces): string[] {
  return ["pause", "busybox"].map((name) => join(places.images, `${name}.tar`));
}

async function busyboxLayer(): Promise<Layer> {
  const busybox = (await runProgram("sh", ["-c", "command -v busybox"])).trim();
  const applets = (await runProgram(busybox, ["--list"]))
    .trim()
    .split("\n")
    .filter((applet) => applet !== "busybox");
  return [
    { kind: "file", path: BUSYBOX, from: busybox },
    ...applets.map((applet) => ({ kind: "symlink", path: `/bin/${applet}`, target: "busybox" }) as const),
    {
      kind: "text",
      path: "/etc/passwd",
      text: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    },
    { kind: "text", path: "/etc/group", text: "root:x:0:\nnogroup:x:65534:\n" },
    { kind: "directory", path: "/tmp", mode: 0o1777 },
  ];
}
