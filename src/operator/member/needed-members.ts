// The members that a mount of the filesystem needs: one that is to leave, and has not yet, is among them, and a spare is not, for whose
// slot no pod waits. Pure.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { isOut } from "../volume/layout-facts.ts";
import { withRefusal } from "./refused-members.ts";
import { settledState } from "./settled-state.ts";

export function neededMembers(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? []).filter(
    (member) => !isOut(layout, member) && settledState(layout, withRefusal(layout, member)) !== "Spare",
  );
}
