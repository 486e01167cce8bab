// Which images the manifests ask for, and where a node may get them from: ours from nowhere but the node itself, unless an overlay says
// otherwise, all others by their digest.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { type Container, hasKubectl, kustomize, kustomizeWith, manifestsOf } from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const OURS = /^tidemark:/;
const PINNED = /^[a-z0-9.]+(\/[a-z0-9-]+)+:v[0-9.]+@sha256:[0-9a-f]{64}$/;
const DIGEST = `sha256:${"0".repeat(64)}`;
const OWN_IMAGE = [{ name: "tidemark", newName: "registry.example/tidemark", digest: DIGEST }];

function containersOf(text: string): Container[] {
  return manifestsOf(text).flatMap(({ spec }) => {
    const pod = spec?.template?.spec;
    return pod === undefined ? [] : [...pod.containers, ...((pod["initContainers"] ?? []) as Container[])];
  });
}

const policiesOf = (containers: readonly Container[]): Set<unknown> =>
  new Set(containers.map(({ imagePullPolicy }) => imagePullPolicy));

/** Its scheduler is there for nothing, and has no image. */
const WITHOUT_SCHEDULER = "e2e-pod-webhook";

describeWithKubectl("the images of the manifests", () => {
  const built: [string, () => string][] = [
    ["the minimal overlay", () => kustomize("overlays/minimal")],
    ["the lvm overlay", () => kustomize("overlays/lvm")],
    [
      "the lvm overlay with placement and snapshots",
      () => kustomizeWith("overlays/lvm", {}, ["components/placement", "components/snapshots"]),
    ],
  ];

  it.each(built)("of %s: ours is never pulled, and each other one has a digest", (_, build) => {
    const containers = containersOf(build());
    const ours = containers.filter(({ image }) => OURS.test(image));
    expect(ours.length).toBeGreaterThan(2);
    expect(policiesOf(ours)).toEqual(new Set(["Never"]));
    const others = containers.filter(({ image }) => !OURS.test(image)).map(({ image }) => image);
    expect(others.filter((image) => !PINNED.test(image))).toEqual([]);
    expect(others.length).toBeGreaterThan(4);
  });

  it.each(readdirSync("kustomize/overlays").filter((name) => name.startsWith("e2e")))(
    "of the test cluster's overlay %s are such as no registry has",
    (name) => {
      const containers = containersOf(kustomize(`overlays/${name}`));
      expect(policiesOf(containers.filter(({ image }) => OURS.test(image)))).toEqual(new Set(["Never"]));
      const others = containers.map(({ image }) => image).filter((image) => !OURS.test(image));
      const pulled = others.filter((image) => !/:v[0-9.]+-local$/.test(image));
      expect(pulled).toEqual(name === WITHOUT_SCHEDULER ? [expect.stringContaining("kube-scheduler:")] : []);
    },
  );

  it.each([
    ["minimal", ["components/pull-image"], 3],
    ["minimal", ["components/placement", "components/pull-image"], 5],
    ["minimal", ["components/policy-admission", "components/pull-image"], 4],
    ["lvm", ["components/placement", "components/pull-image", "components/pull-image/lvmd"], 6],
  ])("are pulled from your registry, by digest, with the overlay %s and %j", (overlay, components, count) => {
    const text = kustomizeWith(`overlays/${overlay}`, { images: OWN_IMAGE }, components);
    const ours = containersOf(text).filter(({ image }) => image === `registry.example/tidemark@${DIGEST}`);
    expect(ours).toHaveLength(count);
    expect(policiesOf(ours)).toEqual(new Set(["IfNotPresent"]));
    expect(containersOf(text).filter(({ imagePullPolicy }) => imagePullPolicy === "Never")).toEqual([]);
  });

  it("may have another version in your overlay, by tag or by digest, without the digest of ours", () => {
    const name = "registry.k8s.io/sig-storage/csi-resizer";
    const imagesWith = (fields: object): (string | undefined)[] =>
      containersOf(kustomizeWith("overlays/minimal", { images: [{ name, ...fields }] }))
        .map(({ image }) => image)
        .filter((image) => image.startsWith(name));
    expect(new Set(imagesWith({ newTag: "v2.1.0" }))).toEqual(new Set([`${name}:v2.1.0`]));
    expect(new Set(imagesWith({ digest: DIGEST }))).toEqual(new Set([`${name}@${DIGEST}`]));
  });
});
