/** Rules: standing approvals in people's names. */

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { Asking } from "../lists/Asking";
import { PlainPage } from "../lists/PlainPage";
import { text } from "../lists/said";
import { type Column, Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { Json } from "../shell/Json";
import { type Me, useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { useOfNow } from "../time/clock";
import { Since, Until } from "../time/Times";

type Rule = components["schemas"]["Rule"];

const COLUMNS: Column<Rule>[] = [
  {
    name: "Approves",
    cell: ({ tool, arguments: given_arguments }) => (
      <>
        <b>{tool}</b>
        <details>
          <summary>with arguments like</summary>
          <Json value={given_arguments} />
        </details>
      </>
    ),
  },
  {
    name: "In",
    cell: ({ run_id, session_id }) => (
      <>
        {run_id !== undefined && (
          <Link to="/runs/$id" params={{ id: run_id }}>
            {run_id}
          </Link>
        )}
        {session_id !== undefined && (
          <Link to="/sessions/$id" params={{ id: session_id }}>
            {session_id}
          </Link>
        )}
        {run_id === undefined && session_id === undefined && <span className="soft">all runs</span>}
      </>
    ),
  },
  {
    name: "Made by",
    cell: ({ by, created_at, question_id }) => (
      <>
        <span>{by}</span>
        <Link to="/inbox/$id" params={{ id: question_id }}>
          <Since at={created_at} />
        </Link>
      </>
    ),
  },
  {
    name: "Used",
    cell: ({ uses, max_uses }) => (max_uses === undefined ? `${uses} times` : `${uses} of ${max_uses} times`),
  },
  { name: "Ends", cell: (rule) => <End rule={rule} /> },
];

function End({ rule }: { rule: Rule }) {
  const expires = rule.expires_at ?? Infinity;
  const phase = useOfNow((now) => (expires > now ? "going" : "over"));
  if (rule.revoked_at !== undefined) {
    return (
      <span>
        revoked <Since at={rule.revoked_at} />
        {rule.revoked_by !== undefined && ` by ${rule.revoked_by}`}
      </span>
    );
  }
  if (rule.max_uses !== undefined && rule.uses >= rule.max_uses) return "used up";
  if (rule.expires_at === undefined) return <span className="soft">not by itself</span>;
  if (phase === "going") return <Until at={rule.expires_at} />;
  return (
    <span>
      expired <Since at={rule.expires_at} />
    </span>
  );
}

function isInForce(rule: Rule): boolean {
  return (
    rule.revoked_at === undefined &&
    (rule.expires_at === undefined || rule.expires_at * 1000 > Date.now()) &&
    (rule.max_uses === undefined || rule.uses < rule.max_uses)
  );
}

function mayRevoke(me: Me, rule: Rule): boolean {
  return mayOperate(me) || (me.roles.includes("responder") && rule.by === me.user_id);
}

export function RulesPage() {
  const me = useMe();
  const { ended = false } = useSearch({ strict: false }) as { ended?: boolean };
  const navigate = useNavigate();
  const rules = useList<Rule>(["rules", { ended }], (after) =>
    given(
      api.GET("/v1/rules", { params: { query: { in_force: !ended, limit: 100, ...(after && { after }) } } }),
    ),
  );
  const columns = [
    ...COLUMNS,
    {
      name: "Do",
      cell: (rule: Rule) => isInForce(rule) && mayRevoke(me, rule) && <Revoking rule={rule} me={me} />,
    },
  ];
  return (
    <PlainPage
      title="Rules"
      controls={
        <fieldset className="segments" aria-label="Which rules">
          {([false, true] as const).map((each) => (
            <button
              key={String(each)}
              type="button"
              aria-pressed={each === ended}
              onClick={() => navigate({ to: "/rules", search: (each ? { ended: true } : {}) as never })}
            >
              {each ? "All" : "In force"}
            </button>
          ))}
        </fieldset>
      }
    >
      <Table
        label="Rules"
        list={rules}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>{ended ? "No rules" : "No rule is in force"}</h2>
            <p>
              A rule approves an action again, with similar arguments, in the name of its maker, for a day at
              most. One is made by answering a question, and can be revoked here.
            </p>
          </>
        }
      />
    </PlainPage>
  );
}

function Revoking({ rule, me }: { rule: Rule; me: Me }) {
  return (
    <Asking
      verb="Revoke"
      title={`Revoke the rule for ${rule.tool}?`}
      list="rules"
      className="danger"
      send={(said) =>
        given(
          api.POST("/v1/rules/{rule_id}/revoke", {
            params: { path: { rule_id: rule.id } },
            body: { by: `user:${me.user_id}`, reason: text(said, "reason") ?? null },
          }),
        )
      }
    >
      <p>People are asked again. Earlier approvals stay.</p>
      <label>
        Reason
        <input name="reason" autoComplete="off" />
      </label>
    </Asking>
  );
}
