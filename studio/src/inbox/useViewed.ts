/** Records in the audit trail that an assignee has seen a question, each time it is opened. */

import { useEffect } from "react";
import { api } from "../api/client";

export function useViewed(id: string, user_id: string, groups: readonly string[], mayAnswer: boolean): void {
  const said = groups.join(" ");
  useEffect(() => {
    if (!mayAnswer) return;
    const path = { question_id: id };
    const body = { user_id, groups: said === "" ? [] : said.split(" "), roles: [] };
    // the question stays visible, even if this was not recorded
    api.POST("/v1/questions/{question_id}/view", { params: { path }, body }).catch(() => undefined);
  }, [id, user_id, said, mayAnswer]);
}
