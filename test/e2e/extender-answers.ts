// How often an extender has told a scheduler where a pod's volumes fit, by what it says of itself to Prometheus.

/** `metrics`: its whole page. Questions that it could not answer do not count. */
export function filterAnswers(metrics: string): number {
  const series = metrics.matchAll(/^tidemark_extender_request_duration_seconds_count\{([^}]*)\} (\d+)$/gm);
  return [...series]
    .filter(([, labels = ""]) => labels.includes('verb="filter"') && labels.includes('status="200"'))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}
