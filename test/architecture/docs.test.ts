import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { parseAllDocuments } from "yaml";

const PAGES = ["README.md", "CONTRIBUTING.md", ...pagesBelow("docs")];
const CODE_BLOCK = /^( *)```(\w*)\n(.*?)^ *```$/gms;

function pagesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md"))
    .map((path) => join(directory, path));
}

function textOf(page: string): string {
  return readFileSync(page, "utf8");
}

function proseOf(page: string): string {
  return textOf(page).replace(CODE_BLOCK, "");
}

/** As GitHub makes them of headings. */
function anchorsOf(page: string): string[] {
  return [...proseOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .replace(/\]\(.*?\)/g, "")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, "")
      .replaceAll(" ", "-"),
  );
}

function isBroken(page: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page : normalize(join(dirname(page), path));
  return !existsSync(target) || (anchor !== undefined && !anchorsOf(target).includes(anchor));
}

/** Paths of the tree, also of code blocks; "NAME" and the like is what the reader fills in. */
function pathsIn(page: string): string[] {
  const paths = textOf(page).matchAll(
    /(?<![\w./-])(?:src|test|kustomize|scripts|bench|proto|policies|docs)\/[\w./*-]*/g,
  );
  return [...paths].map(([path]) => path.replace(/\.+$/, "")).filter((path) => !/[*]|\b[A-Z]+\b/.test(path));
}

/** One in a list is as far in as its fence. */
function yamlIn(page: string): string[] {
  return [...textOf(page).matchAll(CODE_BLOCK)]
    .filter(([, , kind]) => kind === "yaml")
    .map(([, indent = "", , text = ""]) => text.replace(new RegExp(`^${indent}`, "gm"), ""));
}

describe.each(PAGES)("%s", (page) => {
  it("links to what is there", () => {
    const links = [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
    expect(links.filter((link) => !link.startsWith("https://") && isBroken(page, link))).toEqual([]);
  });

  it("names files and folders of the tree that are there", () => {
    expect(pathsIn(page).filter((path) => !existsSync(path))).toEqual([]);
  });

  it("has YAML that kustomize and kubectl can read, too", () => {
    const errors = yamlIn(page).flatMap((text) => parseAllDocuments(text).flatMap((document) => document.errors));
    expect(errors).toEqual([]);
    // Their parser ends a plain scalar in brackets at a question mark, as YAML 1.1 has it.
    expect(yamlIn(page).flatMap((text) => text.match(/[[{][^\]}"'\n]*\w\?[^\n]*/g) ?? [])).toEqual([]);
  });
});
