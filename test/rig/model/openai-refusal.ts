/** How both OpenAI protocols word an error. */
import { type Refusal, type RefusingFault, retryHeaders } from "./protocol.ts";

const HTTP_BAD = 400;
const HTTP_TOO_MANY = 429;

/** The answer to a request that the script refuses. */
export function openAiRefusal(fault: RefusingFault): Refusal {
  if (fault.type === "refuse") {
    const limited = fault.status === HTTP_TOO_MANY;
    const type = limited ? "rate_limit_exceeded" : "server_error";
    const error = { message: `the script says ${fault.status}`, type, param: null, code: type };
    return { status: fault.status, headers: retryHeaders(fault), body: { error } };
  }
  if (fault.type === "overflow") {
    const message =
      "Your input exceeds the context window of this model. Please adjust your input and try again.";
    const code = "context_length_exceeded";
    const error = { message, type: "invalid_request_error", param: "input", code };
    return { status: HTTP_BAD, headers: {}, body: { error } };
  }
  if (fault.resetAtS === undefined) {
    const type = "insufficient_quota";
    const message = "You exceeded your current quota, please check your plan and billing details.";
    return { status: HTTP_TOO_MANY, headers: {}, body: { error: { message, type, code: type } } };
  }
  const type = "usage_limit_reached";
  const message = "The usage limit has been reached";
  const error = { type, message, plan_type: "plus", resets_at: fault.resetAtS };
  return { status: HTTP_TOO_MANY, headers: {}, body: { error } };
}

/** The answer to a request that cannot be served as the script says. */
export function openAiComplaint(message: string): Refusal {
  const error = { message, type: "invalid_request_error", param: null, code: null };
  return { status: HTTP_BAD, headers: {}, body: { error } };
}
