/** In which groups one is, where nobody signs in: what is asked of a group is theirs then. */

import { sayGroups, useMe, useSpokenGroups } from "./me";

export function Groups() {
  const me = useMe();
  const typed = useSpokenGroups();
  if (me.isKnown) return null;
  return (
    <label className="who groups">
      <span className="groups-label">Your groups</span>
      <input
        value={typed}
        maxLength={500}
        placeholder="finance, ops"
        onChange={(event) => sayGroups(event.target.value)}
        title="Nobody signs in here: say which groups you are in"
      />
    </label>
  );
}
