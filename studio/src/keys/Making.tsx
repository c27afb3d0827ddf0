/** The form that makes a key. */

import { api, given } from "../api/client";
import { Asking } from "../lists/Asking";
import { number, text, texts } from "../lists/said";
import { type Kind, type NewKey, type Role, ROLES } from "./key";

const DAY = 86_400;

interface MakingProps {
  kind: Kind;
  onMade: (made: NewKey) => void;
}

export function Making({ kind, onMade }: MakingProps) {
  const send = async (said: FormData) => {
    const days = number(said, "days");
    onMade(
      await given(
        api.POST("/v1/keys", {
          body: {
            name: text(said, "name") ?? "",
            kind,
            roles: said.getAll("role") as Role[],
            groups: texts(said, "groups") ?? null,
            act_as: said.has("act_as"),
            lifetime_seconds: days === undefined ? null : days * DAY,
          },
        }),
      ),
    );
  };
  return (
    <div className="end">
      <Asking
        verb="New key"
        title={kind === "service" ? "New service key" : "New worker key"}
        list="keys"
        className="primary"
        send={send}
      >
        <label>
          Name
          <input
            name="name"
            required
            autoComplete="off"
            placeholder={kind === "service" ? "shop" : "gpu-1"}
          />
        </label>
        {kind === "service" && <What />}
        <div className="pair">
          <label>
            Groups
            <input name="groups" autoComplete="off" placeholder="all" />
            <small>
              {kind === "service" ? "in which it starts runs" : "that it works on"}, separated by commas
            </small>
          </label>
          <label>
            Days until it expires
            <input name="days" type="number" min={0} step="any" placeholder="never" />
          </label>
        </div>
      </Asking>
    </div>
  );
}

function What() {
  return (
    <fieldset>
      <legend>Roles</legend>
      {ROLES.map(([role, means]) => (
        <label key={role} className="tick">
          <input type="checkbox" name="role" value={role} defaultChecked={role === "operator"} />
          <span>
            {role} <small>{means}</small>
          </span>
        </label>
      ))}
      <label className="tick">
        <input type="checkbox" name="act_as" />
        <span>
          acts for people <small>says itself in whose name it asks</small>
        </span>
      </label>
    </fieldset>
  );
}
