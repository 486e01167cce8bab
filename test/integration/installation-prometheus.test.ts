// What the installation page gives people for their Prometheus, read by Prometheus' own tool.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";

describeReal("the installation page's files for Prometheus", ["prometheus"], () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "installation-prometheus-"));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const blocks = readFileSync("docs/reference/installation.md", "utf8")
    .split("```yaml\n")
    .slice(1)
    .map((rest) => rest.slice(0, rest.indexOf("```")));
  const blockWith = (start: string): string => {
    const found = blocks.filter((block) => block.startsWith(start));
    expect(found).toHaveLength(1);
    return found[0] ?? "";
  };
  const check = (kind: string, content: string): string => {
    const file = join(directory, `${kind}.yaml`);
    writeFileSync(file, content);
    return execFileSync("/usr/bin/promtool", ["check", kind, file], { encoding: "utf8", stdio: "pipe" });
  };

  it("scrape, and leave the label namespace to the claim", () => {
    const scrape = blockWith("scrape_configs:\n");
    // Debian's Prometheus knows no Kubernetes: how pods are found is all that it does not check.
    const elsewhere = scrape.replace(/ {4}kubernetes_sd_configs:\n(?: {6}.*\n)+/, "    static_configs: []\n");
    expect(elsewhere).not.toContain("kubernetes_sd_configs");
    expect(check("config", elsewhere)).toContain("SUCCESS");
    expect(scrape).toContain("honor_labels: true\n");
    const endpoints = blockWith("apiVersion: monitoring.coreos.com/v1\n").match(/- \{ port: .*/g);
    expect(endpoints).toHaveLength(2);
    for (const endpoint of endpoints ?? []) expect(endpoint).toContain("honorLabels: true");
  });

  it("scrape by token, and never show lvmd the token, which speaks plain HTTP", () => {
    const scrape = blockWith("# Two jobs: ");
    const elsewhere = scrape
      .replace(/ {4}kubernetes_sd_configs: &pods\n(?: {6}.*\n)+?(?= {4}\S)/, "    static_configs: []\n")
      .replace(/ {4}kubernetes_sd_configs: \*pods\n/, "    static_configs: []\n")
      .replace(/credentials_file: \S+/, `credentials_file: ${join(directory, "token")}`);
    writeFileSync(join(directory, "token"), "a.b.c");
    expect(elsewhere).not.toContain("kubernetes_sd_configs");
    expect(check("config", elsewhere)).toContain("SUCCESS");
    const [, byToken = "", ofLvmd = ""] = scrape.split("  - job_name: ");
    expect(byToken).toMatch(/scheme: https\n[^]*regex: metrics \}/);
    expect(ofLvmd).toMatch(/regex: lvmd-metrics \}/);
    expect(ofLvmd).not.toContain("authorization");
  });

  it("alert on metrics that are there", () => {
    const rules = blockWith("groups:\n");
    expect(check("rules", rules)).toContain("SUCCESS: 5 rules found");
    const known = readFileSync("docs/reference/metrics.md", "utf8");
    for (const name of rules.match(/\btidemark_\w+/g) ?? []) expect(known).toContain(`\`${name}\``);
  });
});
