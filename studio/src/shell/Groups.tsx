/** The user's groups, where there is no sign-in: their questions are the user's, too. */

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
        title="This server has no sign-in: enter your groups"
      />
    </label>
  );
}
