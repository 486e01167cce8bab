// What is wrong with lvmd or with what it works on, as one sentence; undefined when nothing is. Pure but for what it is handed.
import { classState } from "./classes/class-state.ts";
import type { ReportCache } from "./lvm/report-cache.ts";
import type { FollowedSettings } from "./settings/follow-settings.ts";
import { impairment } from "./volumes/sizes.ts";
import { isUnusable, unusable } from "./volumes/volume-host.ts";

export function lvmdProblem(settings: FollowedSettings, reports: ReportCache): string | undefined {
  return settings.problem() ?? reports.problem() ?? classProblem(settings, reports);
}

function classProblem(settings: FollowedSettings, reports: ReportCache): string | undefined {
  for (const deviceClass of settings.now().deviceClasses) {
    const state = classState(reports.latest(), deviceClass);
    const problem = isUnusable(state) ? unusable(state).message : impairment(state);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
