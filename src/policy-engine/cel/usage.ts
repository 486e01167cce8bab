// What an expression needs when the variables that it reads are counted in. Each variable counts once: it is memoised.
import type { Usage, Variable } from "./compilation.ts";

/** The usage with all variables that it reaches, themselves reached through variables included. */
export function totalUsage(own: Usage): Usage {
  const total = { ...own, reads: new Set(own.reads), windows: [...own.windows], variables: new Set<Variable>() };
  for (const variable of own.variables) addVariable(total, variable);
  return total;
}

function addVariable(total: Usage, variable: Variable): void {
  if (total.variables.has(variable)) return;
  total.variables.add(variable);
  total.cost += variable.usage.cost;
  for (const fact of variable.usage.reads) total.reads.add(fact);
  for (const window of variable.usage.windows) {
    const isKnown = total.windows.some((one) => one.function === window.function && one.windowMs === window.windowMs);
    if (!isKnown) total.windows.push(window);
  }
  for (const other of variable.usage.variables) addVariable(total, other);
}
