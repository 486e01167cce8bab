// The disk of the agent's state and members is not mounted after a boot. A bind mount stands for it, and an agent that starts anew for the boot.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { type AgentUnderTest, startAgentUnderTest, volumeUnderTest } from "./agent-under-test.ts";

const DIRECTORIES = ["state", "members"];

describeReal("an agent whose state is on a disk of its own", STACK_PARTS, () => {
  let agent: AgentUnderTest;
  const at = (name: string): string => join(agent.directory, name);
  const mount = (): void => {
    for (const name of DIRECTORIES) execFileSync("mount", ["--bind", at(`disk/${name}`), at(name)]);
  };

  beforeEach(async () => {
    agent = await startAgentUnderTest();
    for (const name of DIRECTORIES)
      for (const path of [at(`disk/${name}`), at(name)]) mkdirSync(path, { recursive: true });
    mount();
  });
  afterEach(async () => {
    await agent.dispose();
  });

  it("does not start, and makes nothing, while that is not mounted; then it finds its volume", async () => {
    await agent.startAgent();
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await volume.stage();
    await volume.unstage();
    await agent.stopAgent();
    for (const name of DIRECTORIES) execFileSync("umount", [at(name)]);

    await agent.startAgent();
    await agent.agentEnded();
    expect(agent.log()).toContain(`Mount the disk of ${at("state")} and restart the agent`);
    for (const name of DIRECTORIES) expect(readdirSync(at(name))).toEqual([]);

    mount();
    await agent.startAgent();
    await volume.stage();
    expect(volume.capacityBytes()).toBe(GIB);
    await volume.unstage();
  });

  it("starts where somebody has deleted its state, and makes it again", async () => {
    await agent.startAgent();
    await agent.stopAgent();
    for (const name of ["volumes", "locks"]) rmSync(join(at("state"), name), { recursive: true });
    await agent.startAgent();
    expect(existsSync(join(at("state"), "volumes"))).toBe(true);
  });

  it("makes no member below a disk that is unmounted while it runs", async () => {
    execFileSync("umount", [at("members")]);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8g", "tidemark-test", at("members")]);
    await agent.startAgent();
    execFileSync("umount", [at("members")]);
    const volume = volumeUnderTest(agent, randomUUID(), "1Gi");
    await volume.applyLayout();
    await expect(volume.stage()).rejects.toThrow(`Mount the disk of ${at("members")} again`);
    expect(readdirSync(at("members"))).toEqual([]);
  });
});
