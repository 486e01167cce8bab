import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { refusalsIn } from "../../scripts/words/refusals.ts";

describe("the check of words", () => {
  it.each([
    ["a string", "src/agent/a.ts", ["", 'throw new Error("nobody is here");'], ":2", "nobody"],
    ["a string of the demo", "demo/a.ts", ['say("the size is no number");'], ":1", "is no"],
    ["a template", "src/a.ts", ["const text = `volume ${name} is", "  made anew at ${node}`;"], ":2", "anew"],
    ["a literal in a template", "src/a.ts", ["const a = `${b ? `it was told ${c}` : d} of e`;"], ":1", "told"],
    ["a comment", "src/lvmd/a.ts", ["const a = 1;", "/** It", " * is kept. */"], ":3", "kept"],
    ["a comment behind code", "src/cli/a.ts", ["const a = b(); // told by c"], ":1", "told"],
    ["a comment in a list", "src/platform/a.ts", ["const a = [", "  b, // whoever", "];"], ":2", "whoever"],
    ["a comment where its line ends", "src/contracts/a.ts", ["// It is not there any", "// more."], ":1", "any more"],
    ["a comment in a block", "src/extender/a.ts", ["/**", " * There for", " * good.", " */"], ":2", "for good"],
    ["a comment of a script", "scripts/a.ts", ["// nobody"], ":1", "nobody"],
    ["a page", "README.md", ["# Title", "", "A volume has room", "beside the others."], ":4", "beside"],
    ["a page where its line ends", "docs/adr/a.md", ["It is not there any", "more."], ":1", "any more"],
    ["the text of a link", "docs/a.md", ["See [what is kept](b.md)."], ":1", "kept"],
    ["a comment of a manifest", "kustomize/a.yaml", ["# Whoever reads it", "a: b"], ":1", "Whoever"],
    ["a comment behind a field", "policies/a.yaml", ["a: b # told by c"], ":1", "told"],
    [
      "a comment where its line ends",
      "kustomize/a.yaml",
      ["a:", "  # There for", "  # good.", "  - b"],
      ":2",
      "for good",
    ],
    ["a description", "kustomize/a.yaml", ["a: b", "description: >-", "  Sizes that", "  stray."], ":4", "stray"],
    ["a message", "kustomize/a.yaml", ["x:", "  - message: What is kept stays"], ":2", "kept"],
  ])("finds a word in %s", (_, file, lines, line, word) => {
    expect(refusalsIn(file, lines.join("\n"))).toEqual([expect.stringContaining(`${file}${line}: "${word}": `)]);
  });

  it("says what to write instead", () => {
    expect(refusalsIn("README.md", "It stays for ever.")).toEqual([
      'README.md:1: "for ever": indefinitely, without end',
    ]);
  });

  it.each([
    ["code in a comment", "src/lvmd/a.ts", ["// The field `kept` and ``told ` x``."]],
    ["what looks like a comment in a text", "src/lvmd/a.ts", ["const a = `${b}// kept`;", 'const c = "// kept";']],
    ["literals of scripts", "scripts/a.ts", ['refused("told by nobody");']],
    ["identifiers and what is short", "src/a.ts", ['const kept = told("kept");', "tell({ stray: beside });"]],
    ["what is imported", "src/a.ts", ['import { a } from "./told and kept beside.ts";']],
    ["code of a template", "src/a.ts", ["const a = `a ${kept(told)} of ${beside}`;"]],
    [
      "code of a page",
      "docs/a.md",
      ["```sh", "tell nobody", "```", "The field `kept` and ``told ` x``.", "- ```", "  kept", "  ```"],
    ],
    ["where a link leads", "docs/a.md", ["See [this](kept/told.md#beside) or <https://kept.example/told>."]],
    ["values and scripts of a manifest", "kustomize/a.yaml", ["a: told", "b: |", "  # kept by the script"]],
    ["plain negation", "docs/a.md", ["There is no node, and it is no longer there."]],
  ])("leaves alone %s", (_, file, lines) => {
    expect(refusalsIn(file, lines.join("\n"))).toEqual([]);
  });

  it("reads what users read of a tree, and ends with 1 where a word is found", () => {
    const tree = mkdtempSync(join(tmpdir(), "tidemark-words-"));
    try {
      for (const file of ["src/a.ts", "demo/b/c.ts", "src/contracts/gen/d.ts", "test/e.ts"])
        write(file, "f(`nobody is here`);");
      for (const file of ["scripts/k/l.ts", "src/contracts/gen/m.ts"]) write(file, "// It is kept.");
      for (const file of ["README.md", "docs/adr/g.md", "test/h.md"]) write(file, "It is kept.");
      for (const file of ["kustomize/base/i.yaml", "policies/j.yaml", "proto/k.yaml"]) write(file, "# It is kept.");
      const places = [
        "src/a.ts",
        "demo/b/c.ts",
        "scripts/k/l.ts",
        "README.md",
        "docs/adr/g.md",
        "kustomize/base/i.yaml",
        "policies/j.yaml",
      ];
      const { status, stderr } = run();
      expect(
        stderr
          .split("\n")
          .slice(0, -2)
          .map((line) => line.split(":")[0]),
      ).toEqual(places);
      expect(status).toBe(1);
      for (const place of places) rmSync(join(tree, place));
      expect(run()).toMatchObject({ status: 0, stderr: "" });
    } finally {
      rmSync(tree, { recursive: true });
    }

    function write(file: string, text: string): void {
      mkdirSync(dirname(join(tree, file)), { recursive: true });
      writeFileSync(join(tree, file), text);
    }

    function run(): { status: number | null; stderr: string } {
      const tsx = `file://${resolve("node_modules/tsx/dist/esm/index.mjs")}`;
      const args = ["--import", tsx, resolve("scripts/check-words.ts")];
      return spawnSync(process.execPath, args, {
        cwd: tree,
        env: { ...process.env, NODE_OPTIONS: "" },
        encoding: "utf8",
      });
    }
  });
});
