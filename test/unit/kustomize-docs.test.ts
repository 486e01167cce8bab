// What the pages say to patch is there to be patched: kustomize passes over a patch whose target it does not find, and says nothing.
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "@jest/globals";
import { parse } from "yaml";
import { hasKubectl, kustomizeWith } from "../harness/kustomize.ts";

interface Snippet {
  readonly page: string;
  readonly resources?: readonly string[];
  readonly components?: readonly string[];
  readonly patches?: readonly { readonly target: { readonly kind: string; readonly name: string } }[];
}

const PAGES = [
  "README.md",
  ...readdirSync("docs", { encoding: "utf8", recursive: true }).map((name) => `docs/${name}`),
];
const itWithKubectl = hasKubectl() ? it : it.skip;

const snippets = PAGES.filter((page) => page.endsWith(".md")).flatMap((page) =>
  readFileSync(page, "utf8")
    .split("```yaml\n")
    .slice(1)
    .map((part) => part.split("```")[0] ?? "")
    .filter((text) => /^ *(- )?patch: \|/m.test(text))
    .map((text): Snippet => ({ page, ...(parse(text) as object) })),
);
/** Relative to kustomize/; a page names it by a path or by an address. */
const ours = (path: string): string | undefined => /\/kustomize\/([\w/-]+)/.exec(path)?.[1];
/** A part of somebody's overlay: over ours with the most in it. */
const FULLEST = {
  resources: ["/kustomize/overlays/lvm"],
  components: ["placement", "policy-admission", "metrics-authentication", "network-policies"].map(
    (name) => `/kustomize/components/${name}`,
  ),
};
const cases = snippets.flatMap(({ page, resources, components, patches = [] }) =>
  patches.flatMap((patch) => {
    const over = resources === undefined ? FULLEST : { resources, components: components ?? [] };
    const [directory] = over.resources.flatMap((path) => ours(path) ?? []);
    const { kind, name } = patch.target;
    const added = over.components.flatMap((path) => ours(path) ?? []);
    return directory === undefined ? [] : [{ title: `${kind} ${name} of ${page}`, directory, added, patch }];
  }),
);

it("give patches as a kustomization, or as the patches of one", () => {
  expect(snippets.filter(({ patches }) => patches === undefined)).toEqual([]);
  expect(cases.length).toBeGreaterThan(4);
});

itWithKubectl.each(cases)("change $title", ({ directory, added, patch }) => {
  const plain = kustomizeWith(directory, {}, added);
  expect(kustomizeWith(directory, { patches: [patch] }, added)).not.toBe(plain);
});
