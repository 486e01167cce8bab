// Which shared libraries a program of this machine loads, its loader included, by ldd. Reading only.
import { execFileSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** Absolute paths, with the names that the loader looks for. A static program has none. */
export function sharedLibrariesOf(program: string): string[] {
  let listed: string;
  try {
    listed = execFileSync("ldd", [program], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    if (/not a dynamic executable/.test(`${stdout}${stderr}`)) return [];
    throw error;
  }
  return parseLibraries(program, listed).map(withRealDirectory);
}

/** Lines of ldd: "NAME => PATH (ADDRESS)", "PATH (ADDRESS)" for the loader, and one without a path for the kernel's own. */
export function parseLibraries(program: string, listed: string): string[] {
  const missing = /^\s*(\S+) => not found$/m.exec(listed)?.[1];
  if (missing !== undefined) throw new Error(`${program} needs ${missing}, which is not on this machine`);
  return [...listed.matchAll(/^\s*(?:\S+ => )?(\/\S+) \(0x[0-9a-f]+\)$/gm)].map(([, path]) => path as string);
}

/** Of a path through /lib or /lib64, which are links into /usr. The name stays: it is what programs ask for. */
export function withRealDirectory(path: string): string {
  return join(realpathSync(dirname(path)), basename(path));
}
