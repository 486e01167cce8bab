// For storage on which nothing could take back a shrink of an unmounted filesystem: there is none.
import { StorageError, type UnmountedShrinks } from "./storage.ts";

export const NO_UNMOUNTED_SHRINKS: UnmountedShrinks = {
  shrinksUnmounted: () => false,
  shrinkUnmounted: async ({ handle }) => {
    throw new StorageError("CommandFailed", `${handle} is never made smaller while it is unmounted`);
  },
  finishUnmounted: async () => undefined,
};
