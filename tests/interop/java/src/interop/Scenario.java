package interop;

import java.util.Map;

/** One scenario: uses the client, leaves what it saw in `facts`. */
interface Scenario {
    void run(Fixture fixture, Map<String, Object> facts) throws Exception;
}
