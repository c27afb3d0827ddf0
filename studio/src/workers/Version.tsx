/** A worker's build, Signoff and Python versions, and the groups whose workers differ. */

import type { Worker } from "./Worker";

export function Version({ worker }: { worker: Worker }) {
  const { build } = worker;
  const platform = platformOf(worker);
  if (build === undefined && platform === undefined) {
    return (
      <span className="soft" title="Its version of Signoff does not report it.">
        unknown
      </span>
    );
  }
  return (
    <>
      {build !== undefined && <span className="build">{build}</span>}
      {platform !== undefined && <small className="platform">{platform}</small>}
    </>
  );
}

/** Shown below a table, where it moves nothing: during a deployment, or when it has stopped halfway. */
export function Mixed({ workers }: { workers: Worker[] }) {
  const groups = new Map<string, Map<string, number>>();
  for (const worker of workers) {
    const counts = groups.get(worker.group) ?? new Map<string, number>();
    groups.set(worker.group, counts.set(nameOf(worker), (counts.get(nameOf(worker)) ?? 0) + 1));
  }
  return [...groups]
    .filter(([, counts]) => counts.size > 1)
    .map(([group, counts]) => (
      <p key={group} role="note">
        Workers of <b>{group}</b> differ:{" "}
        {[...counts].map(([name, count]) => `${count} of ${name}`).join("; ")}.
      </p>
    ));
}

function nameOf(worker: Worker): string {
  const build = worker.build === undefined ? undefined : `build ${worker.build}`;
  return [build, platformOf(worker)].filter((each) => each !== undefined).join(", ") || "an unknown version";
}

function platformOf({ signoff_version, python_version }: Worker): string | undefined {
  const signoff = signoff_version === undefined ? undefined : `Signoff ${signoff_version}`;
  const python = python_version === undefined ? undefined : `Python ${python_version}`;
  return [signoff, python].filter((each) => each !== undefined).join(", ") || undefined;
}
