/** A group's limits on running runs and on starts. */

import type { Group } from "./group";

export function Limits({ group: { max_running, starts_per } }: { group: Group }) {
  if (max_running === undefined && starts_per === undefined) return <span className="soft">none</span>;
  return (
    <>
      {max_running !== undefined && <span>{max_running} at once</span>}
      {starts_per !== undefined && (
        <span>
          {starts_per.count} starts in {starts_per.seconds} s
        </span>
      )}
    </>
  );
}
